package unit

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/messages/problem"
)

// End stops a unit for good: systemd's stop (SIGTERM, SIGKILL after
// StopTimeout), and cgroup.kill when the control group is not empty grace after
// the call, or systemd can't be reached. It returns when the group is empty or
// gone, which is not yet the proof that WaitQuiet gives. Where the group can't
// be looked at the unit is stopped all the same, and the error says what is not
// known.
func (m *Manager) End(ctx context.Context, ref messages.UnitRef, grace time.Duration) error {
	g, unknown := OpenGroup(ref) // before the stop: afterwards the name may be another's
	if unknown == nil {
		defer g.Close()
	}
	asked, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := m.Stop(asked, ref)
	if unknown != nil {
		return errors.Join(unknown, err)
	}
	if err == nil && g.WaitEmpty(asked) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := g.Kill(); err != nil {
		return err
	}
	return g.WaitEmpty(ctx)
}

// WaitQuiet returns nil once the launch is proven quiet: its control group is
// not populated, or gone after the reference was validated, and no process
// elsewhere carries its mark. Until then told (it may be nil) is called with
// who is alive, each time that changes. When ctx ends first it returns the
// survivors and unit_not_quiet.
func WaitQuiet(ctx context.Context, ref messages.UnitRef, mark Mark, told func([]Survivor)) ([]Survivor, error) {
	g, err := OpenGroup(ref)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	var last []int
	for {
		alive, err := alive(g, mark)
		if err != nil {
			return nil, err
		}
		if len(alive) == 0 {
			return nil, nil
		}
		if pids := ids(alive); told != nil && !equal(pids, last) {
			last = pids
			told(alive)
		}
		if ctx.Err() != nil {
			return alive, notQuiet(ref, alive)
		}
		if err := waitForOne(ctx, g, alive); err != nil {
			return alive, err
		}
	}
}

// Quiet looks once: nil survivors mean proven quiet.
func Quiet(ref messages.UnitRef, mark Mark) ([]Survivor, error) {
	g, err := OpenGroup(ref)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return alive(g, mark)
}

func alive(g *Group, mark Mark) ([]Survivor, error) {
	populated, err := g.Populated()
	if err != nil {
		return nil, err
	}
	found, err := Survivors(mark)
	if err != nil || !populated {
		return found, err
	}
	pids, err := g.Processes()
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	for _, s := range found {
		known[s.PID] = true
	}
	for _, pid := range pids {
		if !known[pid] {
			found = append(found, Survivor{PID: pid, Command: command(pid), Why: "it is in the control group"})
		}
	}
	if len(found) == 0 { // it emptied while we looked; the next look decides
		found = append(found, Survivor{Why: "the control group is populated"})
	}
	return found, nil
}

// waitForOne returns when the group is empty, a survivor ends, the poll's time
// is over or the context ends: each is only a reason to look again.
func waitForOne(ctx context.Context, g *Group, alive []Survivor) error {
	if populated, err := g.Populated(); err != nil {
		return err
	} else if populated {
		err := g.WaitEmpty(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	r, w, err := os.Pipe() // wakes the poll when the context ends
	if err != nil {
		return problem.Wrap(err, "survivors_unknown", "no pipe")
	}
	defer r.Close()
	defer w.Close()
	stop := context.AfterFunc(ctx, func() { w.Write([]byte{0}) })
	defer stop()
	fds := []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
	for _, s := range alive {
		if fd, err := unix.PidfdOpen(s.PID, 0); err == nil {
			defer unix.Close(fd)
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return nil
		}
	}
}

func notQuiet(ref messages.UnitRef, alive []Survivor) error {
	list := ""
	for i, s := range alive {
		if i == 5 {
			list += ", …"
			break
		}
		if i > 0 {
			list += ", "
		}
		list += strconv.Itoa(s.PID) + " (" + s.Command + ": " + s.Why + ")"
	}
	return problem.New("unit_not_quiet", "%s is not proven quiet: %s", ref.Name, list).
		WithHint("The launch's folder stays as it is. End these processes; Sophia cleans up as soon as they are gone.")
}

func ids(s []Survivor) []int {
	var pids []int
	for _, v := range s {
		pids = append(pids, v.PID)
	}
	return pids
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	seen := map[int]bool{}
	for _, v := range a {
		seen[v] = true
	}
	for _, v := range b {
		if !seen[v] {
			return false
		}
	}
	return true
}
