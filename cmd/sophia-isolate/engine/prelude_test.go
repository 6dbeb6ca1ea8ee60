package engine

import (
	"encoding/binary"
	"flag"
	"io"
	"os"
	"runtime"
	"testing"

	v8 "rogchap.com/v8go"
)

var update = flag.Bool("update", false, "make prelude.cache again")

// The cache belongs to this prelude, this V8 and these flags. A worker that cannot
// use it starts a fifth slower, and nobody would notice.
func TestPrelude_CacheIsOfUse(t *testing.T) {
	if *update {
		offMainThread(t, func() error { return writeCache("prelude.cache") })
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

func writeCache(path string) error {
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
	preludeCache = binary.LittleEndian.AppendUint32(program.CreateCodeCache().Bytes, checksum(text))
	return os.WriteFile(path, preludeCache, 0o644)
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
