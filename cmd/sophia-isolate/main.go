package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"sophia/actors/isolates/lockdown"
	"sophia/actors/isolates/standby"
	"sophia/actors/isolates/wire"
	"sophia/cmd/sophia-isolate/engine"
	_ "sophia/cmd/sophia-isolate/namespaces"
)

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
	if err := wire.SayReady(os.Stdout, report); err != nil {
		return err
	}
	if standby.Spare(0) {
		if err := e.Warm(); err != nil {
			return err
		}
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
