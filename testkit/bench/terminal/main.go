// Command terminal measures the terminal relay against reading the PTY
// directly, dtach and tmux, all in one run: what an agent can write while
// somebody looks on, what it can write while the viewer reads nothing, and how
// long a keystroke takes to its echo.
//
// The agent, the echo and the viewer are this program again, in other roles;
// the relay is the real sophia-host, started with a manifest as systemd would.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sophia/testkit/bench"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleFlag {
		if err := play(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench terminal:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 9, "counted rounds of each comparison")
	megabytes := flag.Int("mb", 48, "how much the agent writes in one round")
	keys := flag.Int("keys", 1000, "keystrokes in one round")
	programs := flag.String("programs", "bin", "folder of sophia-host, sophia-wrapper and sophiad")
	only := flag.String("only", "", "one part: tracker, throughput, stalled or echo")
	flag.Parse()
	if err := run(*rounds, *megabytes<<20, *keys, *programs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench terminal:", err)
		os.Exit(1)
	}
}

func run(rounds, bytes, keys int, programs, only string) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := installPeers(ctx); err != nil {
		return err
	}
	r, err := newRig(programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	m := &measure{rig: r, rounds: rounds, bytes: bytes, keys: keys, report: bench.NewReport("terminal", os.Stdout)}
	parts := []struct {
		name string
		run  func() error
	}{{"tracker", m.tracker}, {"throughput", m.throughput}, {"stalled", m.stalled}, {"echo", m.echo}}
	for _, p := range parts {
		if only != "" && only != p.name {
			continue
		}
		if err := p.run(); err != nil {
			return err
		}
	}
	return m.report.Close()
}

// peers are programs and the Debian packages that they come from.
var peers = map[string]string{"dtach": "dtach", "tmux": "tmux"}

func installPeers(ctx context.Context) error {
	for program, pkg := range peers {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Geteuid() != 0 {
			return fmt.Errorf("%s is missing; run as root: apt-get install -y --no-install-recommends %s", program, pkg)
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", "apt-get update -qq && apt-get install -qq -y --no-install-recommends "+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("installing %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// rig is what the contestants share.
type rig struct {
	dir      string
	self     string // a copy of this program, which a host may hold
	programs string
	runs     int
}

func newRig(programs string) (*rig, error) {
	programs, err := filepath.Abs(programs)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(cache, "sophia-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, self: filepath.Join(dir, "agent"), programs: programs}
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(r.self, b, 0o755)
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) close() error { return os.RemoveAll(r.dir) }

// folder is a fresh one for one run.
func (r *rig) folder() (string, error) {
	r.runs++
	dir := filepath.Join(r.dir, fmt.Sprint(r.runs))
	return dir, os.Mkdir(dir, 0o700)
}
