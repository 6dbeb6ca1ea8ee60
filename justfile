# What there is to do with this checkout. `./justw` runs it without just being installed.

set shell := ["bash", "-euo", "pipefail", "-c"]

export SOPHIA_CHECKOUT := justfile_directory()

# Pure Go and small; only sophia-isolate links V8.
build_flags := "-trimpath -buildvcs=false -ldflags='-s -w'"
staticcheck := "honnef.co/go/tools/cmd/staticcheck@v0.8.2"

[private]
default:
    @just --list --unsorted

# Build everything, start the daemon, register this checkout, say how to connect an agent
up *ARGS: build
    @bin/sophia up --workspace "$SOPHIA_CHECKOUT" {{ARGS}}

# Stop the daemon and every agent it launched
down *ARGS:
    @bin/sophia down {{ARGS}}

# Build all programs into bin/
build:
    @mkdir -p bin
    @CGO_ENABLED=0 go build {{build_flags}} -o bin/ $(for d in cmd/*/; do [ "$d" = cmd/sophia-isolate/ ] || echo "./$d"; done)
    @tsgo=$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}"/sophia-test/npm/node_modules/@typescript/native-preview-*/lib/tsgo 2>/dev/null | head -n 1); [ -z "$tsgo" ] || ln -sf "$tsgo" bin/tsgo
    @if [ -d cmd/sophia-isolate ]; then CGO_ENABLED=1 go build {{build_flags}} -o bin/ ./cmd/sophia-isolate; fi

# Both jobs, shown in about a minute (--json for a script)
demo *ARGS: setup build
    @go run ./testkit/demo {{ARGS}}

# All tests, under the race detector but for the V8 worker; fails on a skip that is not expected
test *ARGS: setup build && test-unprivileged
    @{ go test -json -p 2 -timeout 20m -race {{ARGS}} $(go list ./... | grep -v /cmd/sophia-isolate); \
       go test -json -p 2 -timeout 20m {{ARGS}} ./cmd/sophia-isolate/...; } | go run ./testkit/verdict

# All tests without the race detector: quicker, for while you work
test-quick *ARGS: setup build
    @go test -json -p 2 -timeout 20m {{ARGS}} ./... | go run ./testkit/verdict

# What managed launches are made of, once more as an ordinary user, when root runs it
test-unprivileged *PACKAGES: setup
    @if [ "$(id -u)" -eq 0 ]; then .ci/unprivileged {{PACKAGES}} | go run ./testkit/verdict; fi

# gofmt, vet, staticcheck
lint:
    @files=$(gofmt -l $(git ls-files '*.go')); if [ -n "$files" ]; then echo "not formatted:"; echo "$files"; exit 1; fi
    go vet ./...
    go run {{staticcheck}} ./...

# Measure one part against its peers: store, mcp, isolate, launch, supervise, terminal
bench NAME *ARGS: setup build
    @go run ./testkit/bench/{{NAME}} {{ARGS}}

# Ten thousand runs of execute_code: nothing of them may be left (about ten minutes)
soak: build
    @go run ./testkit/bench/isolate -only growth -runs 10000

# Walk every interleaving of the envelope relay
model:
    go test -count=1 -run 'Model|Explor' -v ./actors/envelope/...

# Format the code
fmt:
    gofmt -w $(git ls-files '*.go')

# Install what the tests and the demo need (Debian packages, npm packages)
setup:
    @.ci/setup
