// Command mcp measures a tools/call over HTTP: Sophia's whole path (bearer
// looked up, connection actor, profile and gate decided, arguments checked,
// inbox counted) against a bare echo on mcp-go's own HTTP transport and on the
// official Go SDK's. Also what an idle connection costs, and what 10,000 of
// them do to a call's p99.
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
	rounds := flag.Int("rounds", 9, "counted rounds of each comparison")
	calls := flag.Int("calls", 2000, "calls per round")
	live := flag.Int("live", 10_000, "live connections")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the comparison to this file")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := run(*rounds, *calls, *live, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "bench mcp:", err)
		os.Exit(1)
	}
}

func run(rounds, calls, live int, profile string) error {
	report := bench.NewReport("mcp", os.Stdout)
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
	}
	err := compare(report, rounds, calls)
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	if err := idle(report, live); err != nil {
		return err
	}
	return report.Close()
}
