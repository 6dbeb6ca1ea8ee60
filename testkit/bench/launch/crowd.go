package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/testkit/bench"
)

// crowd has launches run at once, and looks at what is left after many.
func crowd(ctx context.Context, r *rig, report *bench.Report, at, many int) error {
	// A harness stays held for a while after its last launch.
	if _, err := r.endedBatch(ctx, 1); err != nil {
		return err
	}
	before, err := r.left(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	batch, err := r.batch(ctx, at, "forever")
	if err != nil {
		return err
	}
	running := 0
	for _, l := range batch {
		if l, err = r.until(ctx, l, messages.LeaseRunning); err != nil {
			return err
		}
		if l.State == messages.LeaseRunning {
			running++
		} else {
			report.Note("%s is %s: %s %s", l.Launch, l.State, l.Code, l.Reason)
		}
	}
	report.Note("%d launches at once, all proven after %.1f s", running, time.Since(begun).Seconds())
	report.Figure("running_at_once", float64(running), bench.AtLeast, float64(at))
	for _, l := range batch {
		if _, err := r.api.StopLaunch(ctx, l.Launch); err != nil {
			return err
		}
	}
	for _, l := range batch {
		if _, err := r.ended(ctx, l); err != nil {
			return err
		}
	}
	begun = time.Now()
	badly := 0
	for done := 0; done < many; {
		n := min(at, many-done)
		batch, err := r.endedBatch(ctx, n)
		if err != nil {
			return err
		}
		for _, l := range batch {
			if l.State != messages.LeaseEnded {
				badly++
				report.Note("%s is %s: %s %s", l.Launch, l.State, l.Code, l.Reason)
			}
		}
		done += n
	}
	after, err := r.left(ctx)
	if err != nil {
		return err
	}
	report.Note("%d launches in %.0f s; the daemon had %d descriptors and %d MB, now %d and %d MB",
		many, time.Since(begun).Seconds(), before.descriptors, before.memory>>20, after.descriptors, after.memory>>20)
	report.Figure("ended_badly", float64(badly), bench.AtMost, 0)
	report.Figure("processes_left", float64(after.processes-before.processes), bench.AtMost, 0)
	report.Figure("units_left", float64(after.units), bench.AtMost, 0)
	report.Figure("folders_left", float64(after.folders), bench.AtMost, 0)
	report.Figure("connections_left", float64(after.connections), bench.AtMost, 0)
	report.Figure("descriptors_left", float64(after.descriptors-before.descriptors), bench.AtMost, 0)
	return nil
}

// batch proposes n launches and approves each as it comes: an owner types one
// code at a time. They start and run beside each other.
func (r *rig) batch(ctx context.Context, n int, steps ...string) (out []messages.Lease, err error) {
	for range n {
		r.seats++
		seat := fmt.Sprintf("Seat_%d", r.seats)
		l, err := r.api.Propose(ctx, r.workspace, ownerapi.StartRequest{Harness: "small", Seat: seat, Arguments: steps})
		if err != nil {
			return nil, err
		}
		if err := r.Tray.Answer(ctx, "("+seat+")"); err != nil {
			return nil, err
		}
		if l, err = r.api.WaitLaunch(ctx, l.Launch, messages.LeasePending); err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// endedBatch is a batch of short launches that have ended.
func (r *rig) endedBatch(ctx context.Context, n int) ([]messages.Lease, error) {
	batch, err := r.batch(ctx, n, "exit:0")
	for i := range batch {
		if err == nil {
			batch[i], err = r.ended(ctx, batch[i])
		}
	}
	return batch, err
}

// until waits for a state or the end.
func (r *rig) until(ctx context.Context, l messages.Lease, want messages.LeaseState) (messages.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	l, err := r.api.Launch(ctx, l.Launch)
	for err == nil && l.State != want && l.Outcome == "" {
		l, err = r.api.WaitLaunch(ctx, l.Launch, l.State)
	}
	return l, err
}

// leftovers are what a launch could leave.
type leftovers struct {
	processes, units, folders, connections, descriptors int
	memory                                              int64 // resident, bytes
}

func (r *rig) left(ctx context.Context) (l leftovers, err error) {
	running, err := r.Running()
	if err != nil {
		return l, err
	}
	l.processes = len(running)
	folders, err := r.LaunchFolders()
	if err != nil {
		return l, err
	}
	l.folders = len(folders)
	list := r.Manager.Command("systemctl", "--user", "list-units", "--all", "--no-legend", "--plain", "sophia-launch-*")
	out, err := list.Output()
	if err != nil {
		return l, err
	}
	l.units = strings.Count(string(out), "sophia-launch-")
	connections, err := r.api.Connections(ctx)
	if err != nil {
		return l, err
	}
	for _, c := range connections.Items {
		if c.Lease != "" && c.Revoked == nil {
			l.connections++
		}
	}
	proc := filepath.Join("/proc", fmt.Sprint(r.pid))
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return l, err
	}
	l.descriptors = len(fds)
	status, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return l, err
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(status), &total, &resident); err != nil {
		return l, err
	}
	l.memory = resident * int64(os.Getpagesize())
	return l, nil
}
