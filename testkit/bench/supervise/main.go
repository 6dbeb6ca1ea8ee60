// Command supervise measures the supervision layer against bare hollywood: a
// send through a cell, a crash until the actor runs again, and what idle actors
// cost.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"

	"sophia/testkit/bench"
)

func main() {
	rounds := flag.Int("rounds", 15, "counted rounds of each comparison")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	// hollywood logs each restart; writing that is not what is measured.
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})))
	if err := run(*rounds, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "bench supervise:", err)
		os.Exit(1)
	}
}

func run(rounds int, profile string) error {
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	report := bench.NewReport("supervise", os.Stdout)
	for _, part := range []func(*bench.Report, int) error{sends, restarts, idle} {
		if err := part(report, rounds); err != nil {
			return err
		}
	}
	return report.Close()
}
