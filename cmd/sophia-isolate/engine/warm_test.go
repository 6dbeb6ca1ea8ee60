package engine

import (
	"bufio"
	"bytes"
	"io"
	"runtime"
	"testing"

	"sophia/actors/isolates/wire"
)

// A trial leaves nothing behind: the run after it finds the globals untouched and
// its own calls counted from the first.
func TestWarm_LeavesNothingBehind(t *testing.T) {
	done := make(chan error)
	var out bytes.Buffer
	go func() {
		runtime.LockOSThread()
		e, err := New(&out)
		if err == nil {
			err = e.Warm()
		}
		if err == nil {
			var in []byte
			for _, f := range []wire.Frame{
				{Kind: wire.Methods, Payload: []byte(`[{"Name":"own","Tool":"sophia.own"}]`)},
				{Kind: wire.Run, Payload: []byte(`(async () => { return [Object.keys(sophia), await sophia.own(), typeof input, Object.keys(globalThis)] })`)},
			} {
				in, _ = wire.Append(in, f)
			}
			var job Job
			if job, err = e.Accept(bytes.NewReader(in)); err == nil {
				frames := make(chan wire.Frame, 1)
				frames <- wire.Frame{Kind: wire.Result, OK: true, ID: 1, Payload: []byte(`"answer"`)}
				err = e.Run(job, frames)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var last wire.Frame
	for in := bufio.NewReader(&out); ; {
		f, err := wire.Read(in)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == wire.Log {
			t.Errorf("the trial was heard: %s", f.Payload)
		}
		last = f
	}
	if want := `[["own"],"answer","undefined",["sophia"]]`; last.Kind != wire.Done || string(last.Payload) != want {
		t.Errorf("%v %s, want %s", last.Kind, last.Payload, want)
	}
}
