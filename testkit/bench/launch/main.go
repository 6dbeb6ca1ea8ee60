// Command launch measures managed launches by the real daemon in a private
// systemd user manager, approved in the real tray on a PTY:
//
//   - the overhead: from the owner's yes to the harness's first act, less the
//     harness's own start, against one SHA-256 of its bytes and the start of a
//     bare transient unit. The harness is a small static program padded to the
//     size of Codex 0.147.0: what is measured is Sophia, not Codex.
//   - twenty launches at once
//   - what two hundred launches leave behind
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sophia/testkit/bench"
)

func main() {
	rounds := flag.Int("rounds", 9, "counted rounds of the overhead")
	size := flag.Int64("size", 258_278_208, "bytes of the harness whose launch is compared") // Codex 0.147.0
	at := flag.Int("at-once", 20, "launches at once")
	many := flag.Int("many", 200, "launches after which nothing may be left")
	programs := flag.String("programs", "", "folder of the programs; bin in the checkout when not given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *programs, *rounds, *size, *at, *many); err != nil {
		fmt.Fprintln(os.Stderr, "bench launch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, programs string, rounds int, size int64, at, many int) (err error) {
	r, err := newRig(ctx, programs, size)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			log, _ := os.ReadFile(r.Dirs().Log()) // the first error says more
			err = fmt.Errorf("%w\nthe daemon's log ends with:\n%s", err, log[max(0, len(log)-4000):])
		}
		if closeErr := r.Close(false); err == nil {
			err = closeErr
		}
	}()
	report := bench.NewReport("launch", os.Stdout)
	if err := overhead(ctx, r, report, rounds); err != nil {
		return err
	}
	if err := crowd(ctx, r, report, at, many); err != nil {
		return err
	}
	return report.Close()
}
