package engine

import (
	"bytes"
	"encoding/binary"
	"flag"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	v8 "rogchap.com/v8go"
)

var update = flag.Bool("update", false, "make prelude.cache again")

// The cache belongs to this prelude, this V8 and these flags. A worker that cannot
// use it starts a fifth slower, and nobody would notice.
func TestPrelude_CacheIsOfUse(t *testing.T) {
	if *update {
		fresh := makeCache(t)
		if err := os.WriteFile("prelude.cache", fresh, 0o644); err != nil {
			t.Fatal(err)
		}
		preludeCache = fresh
	}
	offMainThread(t, func() error {
		v8.SetFlags(flags...)
		iso := v8.NewIsolate() // one that has compiled the prelude before would not look at the cache
		defer iso.Dispose()
		_, cached, err := compilePrelude(iso, preludeCache)
		if err == nil && !cached {
			t.Error("V8 makes nothing of prelude.cache: go test ./cmd/sophia-isolate/engine -run Prelude -update")
		}
		return err
	})
}

// Nobody can read the cache, so it is made again and compared: what is checked in
// is what V8 makes of the prelude and nothing else.
func TestPrelude_CacheIsWhatV8MakesOfIt(t *testing.T) {
	if !bytes.Equal(makeCache(t), preludeCache) {
		t.Error("prelude.cache is not what V8 makes of the prelude: go test ./cmd/sophia-isolate/engine -run Prelude -update")
	}
}

// makeCache makes the cache in a process of its own, in which V8 throws no dice: its
// bytes are the same each time. The hash of the flags, which that changes, is the
// workers'. (The header is SerializedCodeData's in V8's src/snapshot/code-serializer.h:
// magic number, version hash, source hash, flag hash, …, of 4 bytes each.)
func makeCache(t *testing.T) []byte {
	t.Helper()
	const flagHash = 3 * 4
	made := func(seed string) []byte {
		c := exec.Command(os.Args[0], "-test.run=^TestPrelude_Maker$")
		c.Env = append(os.Environ(), maker+"="+seed)
		out, err := c.Output()
		if err != nil || len(out) < flagHash+4 {
			t.Fatalf("%v: %d bytes", err, len(out))
		}
		return out
	}
	cache, workers := made("--random-seed=1"), made("")
	copy(cache[flagHash:flagHash+4], workers[flagHash:])
	return cache
}

// maker makes TestPrelude_Maker write a cache to its standard output, with a
// further flag of V8's.
const maker = "SOPHIA_TEST_CACHE"

func TestPrelude_Maker(t *testing.T) {
	seed, asked := os.LookupEnv(maker)
	if !asked {
		return
	}
	offMainThread(t, func() error {
		if seed != "" {
			v8.SetFlags(seed)
		}
		preludeCache = nil
		e, err := New(io.Discard)
		if err != nil {
			return err
		}
		if err := e.Warm(); err != nil { // compiles what a short run uses
			return err
		}
		program, _, err := compilePrelude(e.iso, nil)
		if err != nil {
			return err
		}
		text, err := assemble()
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(binary.LittleEndian.AppendUint32(program.CreateCodeCache().Bytes, checksum(text))); err != nil {
			return err
		}
		os.Exit(0) // and nothing of the test framework's behind it
		return nil
	})
}

// V8 tells texts apart by their length only.
func TestPrelude_CacheOfAnotherText(t *testing.T) {
	text, err := assemble()
	if err != nil {
		t.Fatal(err)
	}
	other := []byte(text)
	other[len(other)/2]++
	if cacheOf(text, preludeCache) == nil || cacheOf(string(other), preludeCache) != nil || cacheOf(text, nil) != nil {
		t.Error("the cache is not told from that of another text")
	}
}

func offMainThread(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
