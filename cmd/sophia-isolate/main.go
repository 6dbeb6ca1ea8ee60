package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/isolates/lockdown"
	"sophia/actors/isolates/wire"
	"sophia/cmd/sophia-isolate/engine"
	_ "sophia/cmd/sophia-isolate/namespaces"
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
	go func() { done <- serve() }()
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
	stdin, err := polled(0)
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
	if !arrives(unhurried) { // nobody waited for this worker
		if err := e.Warm(); err != nil {
			return err
		}
		runtime.GC() // what it used is used again, in place of memory that was never touched
	}
	in := bufio.NewReaderSize(stdin, 64<<10)
	job, err := e.Accept(in)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.Run(job, listen(e, in)); err != nil {
		return err
	}
	select {} // the daemon ends the process once it has passed the result on
}

// polled is a pipe that Go's poller watches: whoever waits for it holds no thread,
// and the thread that a frame wakes is the one that then enters V8.
func polled(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// arrives waits for the first frame, or the end of the pipe.
func arrives(within time.Duration) bool {
	timeout := unix.NsecToTimespec(int64(within))
	n, _ := unix.Ppoll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, &timeout, nil)
	return n > 0
}

// listen reads frames beside V8. A Stop acts at once. When the pipe closes, the
// daemon is gone or has lost interest, and so is the process, whatever V8 does.
func listen(e *engine.Engine, in io.Reader) <-chan wire.Frame {
	frames := make(chan wire.Frame, engine.Calls+8)
	go func() {
		for {
			f, err := wire.Read(in)
			if err != nil {
				os.Exit(0)
			}
			if f.Kind == wire.Stop {
				e.Terminate(f.Name)
			}
			frames <- f
		}
	}()
	return frames
}
