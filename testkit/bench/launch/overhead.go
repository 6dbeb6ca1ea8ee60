package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"sophia/actors/launches/lease"
	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/testkit/bench"
)

// reading is how long the owner who reads looks at the request.
const reading = 2 * time.Second

// overhead compares launches with what they can't do without. An owner takes
// seconds to read what is asked; one who has typed the code before the daemon
// has hashed the harness is measured too.
func overhead(ctx context.Context, r *rig, report *bench.Report, rounds int) error {
	self, err := r.ownStart(ctx)
	if err != nil {
		return err
	}
	peer := func() (float64, error) {
		hash, err := hashed(r.large)
		if err != nil {
			return 0, err
		}
		unit, err := r.bareUnit(ctx)
		return (hash + unit).Seconds(), err
	}
	steps := map[string][]float64{} // after reading: milliseconds from the yes to each state
	ours := func(read time.Duration) func() (float64, error) {
		return func() (float64, error) {
			l, yes, first, err := r.firstAct(ctx, read)
			if err == nil && read > 0 {
				for _, s := range l.History {
					steps[string(s.State)] = append(steps[string(s.State)], float64(s.At.Sub(yes))/1e6)
				}
			}
			return (first.Sub(yes) - self).Seconds(), err
		}
	}
	got, err := bench.Interleave(rounds,
		bench.Contestant{Name: "read", Run: ours(reading)}, bench.Contestant{Name: "at once", Run: ours(0)}, bench.Contestant{Name: "peer", Run: peer})
	if err != nil {
		return err
	}
	report.Note("yes to first act, without the harness's own %.1f ms: %.0f ms after reading, %.0f ms at once; one SHA-256 and a bare unit: %.0f ms",
		self.Seconds()*1e3, got.Median("read")*1e3, got.Median("at once")*1e3, got.Median("peer")*1e3)
	for _, state := range []messages.LeaseState{messages.LeaseApproved, messages.LeaseVerifying, messages.LeaseStarting, messages.LeaseRedeeming} {
		report.Note("  %-10s %5.0f ms after the yes", state, bench.Median(steps[string(state)]))
	}
	report.Figure("overhead_ratio", got.Ratio("read", "peer"), bench.AtMost, 1.2)
	report.Figure("overhead_ratio_answered_at_once", got.Ratio("at once", "peer"), bench.AtMost, 1.2)
	return nil
}

// ownStart is the harness's own start: from fork to its first act, the median
// of several.
func (r *rig) ownStart(ctx context.Context) (time.Duration, error) {
	var took []float64
	for range 9 {
		at := filepath.Join(r.Home, "alone")
		begun := time.Now()
		if err := exec.CommandContext(ctx, r.large, "now:"+at).Run(); err != nil {
			return 0, err
		}
		first, err := moment(at)
		if err != nil {
			return 0, err
		}
		took = append(took, float64(first.Sub(begun)))
	}
	return time.Duration(bench.Median(took)), nil
}

// hashed reads and hashes a file as anybody would.
func hashed(path string) (time.Duration, error) {
	begun := time.Now()
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := io.Copy(sha256.New(), f); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}

// bareUnit starts a transient unit without any property of ours.
func (r *rig) bareUnit(ctx context.Context) (time.Duration, error) {
	conn, err := sd.NewConnection(func() (*dbus.Conn, error) {
		return dbus.Connect("unix:path="+filepath.Join(r.Manager.RuntimeDir, "bus"), dbus.WithContext(ctx))
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	r.seats++
	done := make(chan string, 1)
	begun := time.Now()
	_, err = conn.StartTransientUnitContext(ctx, fmt.Sprintf("bare-%d.service", r.seats), "fail", []sd.Property{
		sd.PropType("exec"), sd.PropExecStart([]string{"/bin/true"}, false), {Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
	}, done)
	if err != nil {
		return 0, err
	}
	select {
	case result := <-done:
		if result != "done" {
			return 0, fmt.Errorf("the bare unit's job: %s", result)
		}
		return time.Since(begun), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// firstAct launches the large harness and returns when the owner said yes and
// when the harness did its first act, once the launch has ended.
func (r *rig) firstAct(ctx context.Context, read time.Duration) (l messages.Lease, yes, first time.Time, err error) {
	r.seats++
	at := filepath.Join(r.Home, fmt.Sprintf("first-%d", r.seats))
	seat := fmt.Sprintf("Seat_%d", r.seats)
	l, err = r.api.Propose(ctx, r.workspace, ownerapi.StartRequest{Harness: "large", Seat: seat, Arguments: []string{"now:" + at}})
	if err != nil {
		return l, yes, first, err
	}
	select {
	case <-time.After(read):
	case <-ctx.Done():
		return l, yes, first, ctx.Err()
	}
	if err := r.Tray.Answer(ctx, "("+seat+")"); err != nil {
		return l, yes, first, err
	}
	yes = time.Now() // the keys were typed this moment
	if l, err = r.ended(ctx, l); err != nil {
		return l, yes, first, err
	}
	first, err = moment(at)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s never ran: %s %s", l.Launch, l.Code, l.Reason)
	}
	return l, yes, first, err
}

// ended waits for a launch's end.
func (r *rig) ended(ctx context.Context, l messages.Lease) (messages.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var err error
	for err == nil && !lease.Final(l.State) {
		l, err = r.api.WaitLaunch(ctx, l.Launch, l.State)
	}
	return l, err
}

func moment(path string) (time.Time, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return time.Unix(0, n), err
}
