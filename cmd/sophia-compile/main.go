package main

import (
	"fmt"
	"os"

	"sophia/actors/isolates/compile"
	"sophia/actors/isolates/lockdown"
	"sophia/actors/isolates/standby"
	"sophia/actors/isolates/wire"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "sophia-compile takes no arguments: sophiad starts it.")
		os.Exit(2)
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

func serve() error {
	if err := wire.SayReady(os.Stdout, wire.Report{Layers: lockdown.Apply()}); err != nil {
		return err
	}
	if standby.Spare(0) {
		compile.Warm()
	}
	return compile.Serve(os.Stdin, os.Stdout)
}
