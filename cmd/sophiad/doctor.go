package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/hostd/doctor"
	"sophia/hostd/harness/adopt"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
)

const (
	// recentEntries is how much of the journal a quick look reads.
	recentEntries = 1000
	// firstWorker bounds the wait for the pool's first word after a start.
	firstWorker = 3 * time.Second
	askPool     = 20 * time.Millisecond
)

// doctor is what the daemon knows of its own health.
func (d *sophiad) doctor(ctx context.Context, full bool) (doctor.Daemon, error) {
	out := doctor.Daemon{
		PID: os.Getpid(), Version: version, Now: time.Now(), MCP: d.address.MCP, Full: full,
		Programs: append([]doctor.Program{ownProgram()}, d.held...), Restarts: restarted(d.tree.Snapshot(), []doctor.Restarted{}),
		Isolates: d.poolFacts(ctx), Trays: d.hub.Subscribers(), Approval: time.Duration(d.config.Approvals.Timeout), Anywhere: d.anywhere(ctx), Unquiet: []doctor.Unquiet{},
	}
	types := d.surface.checker.Status(ctx)
	out.TypeCheck = &doctor.TypeCheck{On: types.On, Detail: types.Detail}
	if own, err := d.host.Units.OwnUnit(ctx); err == nil {
		out.Unit = own
	}
	if err := d.host.Ready(ctx); err != nil {
		out.Launching = problem.Of(err).Message
	}
	leases, err := d.launches.List(ctx)
	if err != nil {
		return out, err
	}
	for _, l := range leases {
		if l.State == messages.LeaseUnquiet {
			out.Unquiet = append(out.Unquiet, doctor.Unquiet{Launch: l.Launch, Reason: l.Reason})
		}
	}
	if out.Store, err = d.storeFacts(full); err != nil {
		return out, err
	}
	out.Harnesses, err = d.harnesses.facts(ctx, full)
	return out, err
}

// ownProgram is what this process runs, which may not be what lies at its path
// any more.
func ownProgram() doctor.Program {
	p := doctor.Program{Name: "sophiad"}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return p
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err == nil {
		p.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return p
}

func restarted(all []supervise.Status, out []doctor.Restarted) []doctor.Restarted {
	for _, s := range all {
		if s.Restarts > 0 || s.State == "abandoned" {
			out = append(out, doctor.Restarted{Path: s.Path, State: s.State, Times: s.Restarts})
		}
		out = restarted(s.Kids, out)
	}
	return out
}

// poolFacts waits for the pool's first word when the daemon has just started.
func (d *sophiad) poolFacts(ctx context.Context) doctor.Isolates {
	out := doctor.Isolates{Strict: d.config.StrictIsolates, Layers: []doctor.Layer{}}
	s, err := d.surface.isolates.Status(ctx)
	tick := time.NewTicker(askPool)
	defer tick.Stop()
	for end := time.After(firstWorker); err == nil && len(s.Report.Layers) == 0 && s.Failures == 0; s, err = d.surface.isolates.Status(ctx) {
		select {
		case <-tick.C:
			continue
		case <-end:
			err = problem.New("isolate_unavailable", "no worker was ready within %v", firstWorker)
		case <-ctx.Done():
			err = ctx.Err()
		}
		break
	}
	if err != nil {
		out.Problem = problem.Of(err).Message
		return out
	}
	out.Idle, out.Running, out.Starting, out.Failures, out.Engine = s.Idle, s.Running, s.Starting, s.Failures, s.Report.Engine
	if s.Compiler != nil {
		out.Compiler = problem.Of(s.Compiler).Message
	}
	if s.Last != nil {
		out.Problem = problem.Of(s.Last).Message
	}
	for _, l := range s.Report.Layers {
		out.Layers = append(out.Layers, doctor.Layer{Name: l.Name, On: l.On, Detail: l.Detail})
	}
	return out
}

func (d *sophiad) storeFacts(full bool) (doctor.Store, error) {
	check := func() (store.Report, error) { return d.db.VerifyRecent(recentEntries) }
	if full {
		check = d.db.Verify
	}
	head, _ := d.db.Head()
	out := doctor.Store{Head: head}
	rep, err := check()
	if err != nil {
		return out, err
	}
	out.Checked, out.Problems = min(rep.Entries, head), rep.Problems
	if head > 0 {
		r := d.db.View(store.Owner())
		defer r.Close()
		last, err := r.Entry(head)
		if err != nil {
			return out, err
		}
		out.Last = last.At
	}
	return out, nil
}

// facts looks at what is adopted: full hashes all of it, else its record and
// the program's inode are compared.
func (h *harnesses) facts(ctx context.Context, full bool) ([]doctor.Harness, error) {
	out := []doctor.Harness{}
	for _, id := range h.set.IDs() {
		c, err := h.set.Get(id)
		if err != nil {
			return nil, err
		}
		row := doctor.Harness{ID: id, Title: c.Name, Pinned: c.Version}
		a, err := h.adopter.Current(id)
		if err == nil {
			row.Adopted, row.SHA256 = true, a.Identity.SHA256
			if err = sameFile(a.Identity); err == nil && full {
				err = adopt.VerifyTree(ctx, h.adopter.TreeOf(a.Identity.Path), a.Tree)
			}
		}
		if err != nil && problem.CodeOf(err) != "harness_not_adopted" {
			p := problem.Of(err)
			row.Problem, row.Mend = p.Message, p.Hint
		}
		out = append(out, row)
	}
	return out, nil
}

// sameFile compares a program with its record as far as that goes without
// reading it.
func sameFile(id messages.FileIdentity) error {
	changed := problem.New("managed_harness_identity_changed", "%s is not what was adopted", id.Path).
		WithHint("Adopt it again: sophia harness adopt")
	var st unix.Stat_t
	if err := unix.Lstat(id.Path, &st); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return changed
		}
		return problem.Wrap(err, "managed_harness_identity_changed", "%s can't be looked at", id.Path)
	}
	if st.Dev != id.Device || st.Ino != id.Inode || st.Size != id.Size || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return changed
	}
	return nil
}
