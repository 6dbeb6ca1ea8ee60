package supervise

import (
	"flag"
	"io"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The default of 100 is too few for schedules; the command line still wins.
	if err := flag.Set("rapid.checks", "2000"); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // hollywood's
	goleak.VerifyTestMain(m)
}
