package main

import (
	"fmt"
	"os"
	"runtime"

	"sophia/actors/isolates/compile"
	"sophia/actors/isolates/lockdown"
	"sophia/actors/isolates/wire"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "sophia-compile takes no arguments: sophiad starts it.")
		os.Exit(2)
	}
	// A second processor would be woken for the tool's own concurrency, and a snippet
	// is too short to gain by it.
	runtime.GOMAXPROCS(1)
	// What a first compilation builds (tables, its stack) is there before anybody
	// waits for it.
	if _, bad := compile.Compile("const n: number = await f(); ({ n })"); bad != nil {
		fmt.Fprintln(os.Stderr, "compile:", bad.Message)
		os.Exit(1)
	}
	if err := compile.Serve(os.Stdin, os.Stdout, wire.Report{Layers: lockdown.Apply()}); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}
