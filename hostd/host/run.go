package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	"sophia/actors/supervise"
	"sophia/hostd/manifest"
	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// ExitRefused is the exit code when the harness was not started (EX_NOPERM).
const ExitRefused = 77

// ReportFile is the report's name next to the manifest. It is used where the
// manifest, which names the file, could not be read.
const ReportFile = "report.json"

const (
	// drainTime bounds the wait for the last output after the harness has ended:
	// a process that it left behind may keep the terminal open.
	drainTime = 2 * time.Second
	// stopLag is how long after a harness that failed its own stop may be noticed
	// here: systemd signals both in the same instant.
	stopLag = 250 * time.Millisecond
	// tellTime bounds the wait for an attached viewer to read the end.
	tellTime = 3 * time.Second
	// DefaultVerify bounds the verification; hashing 300 MB takes about a second.
	DefaultVerify = 2 * time.Minute
)

// exitStopped is the exit code when the unit was stopped before the harness ran.
const exitStopped = 128 + int(unix.SIGTERM)

// harnessPath is the path of the harness's actor.
const harnessPath = "host/harness"

// Host runs one launch.
type Host struct {
	Log      io.Writer        // for what the journal should keep; never the agent's output
	Now      func() time.Time // time.Now
	Verified func()           // called when the heavy work is done; may be nil
	Verify   time.Duration    // bounds the verification; 0 is DefaultVerify
}

// Run consumes the manifest, verifies, runs the harness and returns the exit
// code: the harness's own, 128 + signal (its own, or SIGTERM's before it ran), or
// ExitRefused. When ctx ends, the harness is being stopped by systemd; Run waits
// for it and then skips every grace.
func (h Host) Run(ctx context.Context, manifestPath, digest string) int {
	unix.Umask(0o077)
	_ = secret.NoCores() // the harness starts without, too
	report := reporter{path: filepath.Join(filepath.Dir(manifestPath), ReportFile), now: h.Now}
	m, err := manifest.Consume(manifestPath, digest, h.Now())
	if err != nil {
		fmt.Fprintf(h.Log, "sophia-host: %v\n", err)
		if werr := report.refusedUnread(err); werr != nil {
			fmt.Fprintf(h.Log, "sophia-host: the report can't be written: %v\n", werr)
		}
		return ExitRefused
	}
	report.path, report.launch = m.ReportPath, m.Launch
	limit := cmp.Or(h.Verify, DefaultVerify)
	bounded, cancel := context.WithTimeout(ctx, limit)
	v, err := verify(bounded, m)
	late := bounded.Err() != nil
	cancel()
	switch {
	case ctx.Err() != nil:
		// What was cut off is no sign of a change, and a harness that started now
		// would have missed systemd's SIGTERM.
		if err == nil {
			v.close()
		}
		return h.stopped(report)
	case err != nil && late:
		return h.refuse(report, problem.Wrap(err, "verification_timed_out", "The programs of the launch could not be read within %v", limit).
			WithHint("The disk is slow or busy. Start the agent again."))
	case err != nil:
		return h.refuse(report, err)
	}
	if err := report.write(messages.HostReport{Stage: messages.StageVerified}); err != nil {
		v.close()
		fmt.Fprintf(h.Log, "sophia-host: %v\n", err)
		return ExitRefused
	}
	if h.Verified != nil {
		h.Verified()
	}
	code, err := h.launch(ctx, m, v, report)
	if err != nil {
		v.close()
		return h.refuse(report, err)
	}
	return code
}

// stopped reports that the unit was stopped before the harness ran.
func (h Host) stopped(report reporter) int {
	if err := report.write(messages.HostReport{Stage: messages.StageExited, ExitCode: exitStopped, Stopped: true}); err != nil {
		fmt.Fprintf(h.Log, "sophia-host: the report can't be written: %v\n", err)
	}
	return exitStopped
}

func (h Host) refuse(report reporter, err error) int {
	fmt.Fprintf(h.Log, "sophia-host: %v\n", err)
	if werr := report.refused(err); werr != nil {
		fmt.Fprintf(h.Log, "sophia-host: the report can't be written: %v\n", werr)
	}
	return ExitRefused
}

// launch is what the actors share and outlives each of them.
type launch struct {
	backlog  *terminal.Backlog
	gate     *terminal.Gate
	ended    chan processEnded
	drained  chan struct{}
	told     chan struct{}
	attached chan struct{}
}

func (h Host) launch(ctx context.Context, m messages.Manifest, v *verified, report reporter) (int, error) {
	// The owner's terminal will be open here: the agent, which runs as the same
	// user, can't trace this process or open its descriptors (proc(5), ptrace(2)).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return 0, problem.Wrap(err, "host_failed", "The host can't close itself to the agent")
	}
	size := terminal.Size{Rows: m.Terminal.Rows, Cols: m.Terminal.Cols}.Clamp(terminal.Size{})
	gate, err := terminal.NewGate(m.Terminal.TokenSHA256)
	if err != nil {
		return 0, err
	}
	listener, err := terminal.Listen(m.Terminal.Socket)
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	screen, slave, err := openPTY(size)
	if err != nil {
		return 0, problem.Wrap(err, "pty_failed", "No PTY can be made")
	}
	defer screen.master.Close()
	l := &launch{
		backlog: terminal.NewBacklog(m.Terminal.Backlog, size), gate: gate,
		ended: make(chan processEnded, 1), drained: make(chan struct{}), told: make(chan struct{}), attached: make(chan struct{}),
	}
	l.backlog.Answer = screen.offer
	drained := sync.OnceFunc(func() { close(l.drained) })
	relay := &terminal.Relay{
		Listener: listener, Gate: gate, Backlog: l.backlog, Screen: screen, Size: size,
		Told:     sync.OnceFunc(func() { close(l.told) }),
		Attached: sync.OnceFunc(func() { close(l.attached) }),
	}
	running := func(pid int) {
		if err := report.write(messages.HostReport{Stage: messages.StageRunning, HarnessPID: pid}); err != nil {
			fmt.Fprintf(h.Log, "sophia-host: %v\n", err)
		}
	}
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		slave.Close()
		return 0, problem.Wrap(err, "internal", "The actor engine did not start")
	}
	started := h.Now()
	tree, err := supervise.Start(engine, "host", supervise.Policy{
		Strategy: supervise.OneForOne, Max: 10, Within: time.Minute,
		Report: func(e supervise.Event) { h.log(e); l.lost(e) },
	},
		supervise.Spec{ID: "terminal", New: relay.New, Restart: supervise.Permanent},
		supervise.Spec{ID: "pty", New: func() actor.Receiver { return &drain{screen, l.backlog, drained} }, Restart: supervise.Permanent},
		supervise.Spec{ID: "harness", New: func() actor.Receiver {
			return &agent{m: m, v: v, slave: slave, started: running, ended: func(s *os.ProcessState, err error) { l.ended <- processEnded{s, err} }}
		}, Restart: supervise.Temporary, Stop: supervise.Stop{Grace: 12 * time.Second}},
	)
	if err != nil {
		slave.Close()
		select {
		case end := <-l.ended: // the harness says more
			if end.err != nil {
				return 0, end.err
			}
		default:
		}
		return 0, problem.Wrap(err, "host_failed", "The host's actors did not start")
	}
	defer tree.Stop(context.Background())
	return h.await(ctx, m, l, tree, report, started)
}

// lost makes a crash of the harness's actor the harness's end: the actor is not
// restarted, and its process is killed with it.
func (l *launch) lost(e supervise.Event) {
	if x, ok := e.(supervise.Exited); ok && x.Path == harnessPath && x.Reason != nil {
		select {
		case l.ended <- processEnded{err: problem.Wrap(x.Reason, "host_failed", "The host lost the harness")}:
		default:
		}
	}
}

// log keeps failures: each of them is a fault of Sophia's.
func (h Host) log(e supervise.Event) {
	switch e := e.(type) {
	case supervise.Started:
	case supervise.Exited:
		if e.Reason != nil {
			fmt.Fprintf(h.Log, "sophia-host: %v\n", e)
		}
	default:
		fmt.Fprintf(h.Log, "sophia-host: %v\n", e)
	}
}

// await waits for the harness's end and lets its last output be read.
func (h Host) await(ctx context.Context, m messages.Manifest, l *launch, tree *supervise.Tree, report reporter, started time.Time) (int, error) {
	var end processEnded
	select {
	case end = <-l.ended:
	case <-tree.Done():
		return 0, problem.Wrap(tree.Err(), "host_failed", "The host gave up")
	}
	if end.err != nil {
		return 0, end.err
	}
	code, signal := ending(end.state)
	fast := h.Now().Sub(started) < time.Duration(m.FastFailureMS)*time.Millisecond && code != 0
	wait(context.Background(), drainTime, l.drained)
	if code != 0 {
		wait(ctx, stopLag, nil)
	}
	l.backlog.Close(terminal.Exit{Code: code, Signal: signal})
	if err := report.write(messages.HostReport{Stage: messages.StageExited, HarnessPID: end.state.Pid(), ExitCode: code, Signal: signal, Stopped: ctx.Err() != nil}); err != nil {
		fmt.Fprintf(h.Log, "sophia-host: %v\n", err)
	}
	if fast && !l.gate.Used() {
		// Nobody can have read why: the output is kept for a while.
		wait(ctx, time.Duration(m.GraceMS)*time.Millisecond, l.attached)
	}
	if l.gate.Present() {
		wait(ctx, tellTime, l.told)
	}
	return code, nil
}

// wait returns when done is closed, d is over or ctx ends.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
	}
}
