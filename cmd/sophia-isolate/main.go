package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"sophia/actors/isolates/lockdown"
	"sophia/actors/isolates/wire"
	"sophia/cmd/sophia-isolate/engine"
)

// unhurried is how long after its start a worker takes it that nobody waits for
// it: who does sends the snippet at once.
const unhurried = 5 * time.Millisecond

// The main thread is kept out of V8's way: see package engine.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "sophia-isolate takes no arguments: sophiad starts it.")
		os.Exit(2)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- serve()
	}()
	if err := <-done; err != nil {
		fmt.Fprintln(os.Stderr, "isolate:", err)
		os.Exit(1)
	}
}

func serve() error {
	e, err := engine.New(os.Stdout)
	if err != nil {
		return err
	}
	report := e.Report()
	report.Layers = lockdown.Apply()
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if err := wire.Write(os.Stdout, wire.Frame{Kind: wire.Ready, Payload: b}); err != nil {
		return err
	}
	frames, first := listen(e)
	select {
	case <-first: // somebody waited for this worker
	case <-time.After(unhurried):
		if err := e.Warm(); err != nil {
			return err
		}
		runtime.GC() // what it used is used again, in place of memory that was never touched
	}
	return e.Run(frames)
}

// listen reads frames beside V8. A Stop acts at once. When the pipe closes, the
// daemon is gone or has lost interest, and so is the process, whatever V8 does.
func listen(e *engine.Engine) (_ <-chan wire.Frame, first <-chan struct{}) {
	frames, came := make(chan wire.Frame, engine.Calls+8), make(chan struct{})
	go func() {
		var once sync.Once
		in := bufio.NewReaderSize(os.Stdin, 64<<10)
		for {
			f, err := wire.Read(in)
			if err != nil {
				os.Exit(0)
			}
			if f.Kind == wire.Stop {
				e.Terminate(f.Name)
			}
			once.Do(func() { close(came) })
			frames <- f
		}
	}()
	return frames, came
}
