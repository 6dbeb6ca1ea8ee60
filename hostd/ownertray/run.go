package ownertray

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sophia/hostd/ownerapi"
	"sophia/hostd/ownerkey"
	"sophia/hostd/paths"
	"sophia/messages"
	"sophia/messages/problem"
)

// Options are what the tray needs of the world.
type Options struct {
	In, Out *os.File
	Dirs    paths.Dirs
	Getenv  func(string) string
}

// Times of the connection.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
	decideWait = 15 * time.Second
)

// update is what reaches the loop from beside it.
type update struct {
	keys      []key
	events    []messages.TrayEvent
	tray      *ownerapi.Tray // connected
	lost      bool
	decided   *decision
	err       error // of decided; or why there is no going on
	resized   bool
	endOfKeys bool
}

// Run shows the tray until the owner quits or ctx ends. Both files must be
// terminals: the one who types must be the one who sees.
func Run(ctx context.Context, o Options) error {
	if !term.IsTerminal(int(o.In.Fd())) || !term.IsTerminal(int(o.Out.Fd())) {
		return problem.New("usage", "the tray needs a terminal, for input and for output").
			WithHint("Run sophia-tray --terminal in a terminal of your own.")
	}
	state, err := term.MakeRaw(int(o.In.Fd()))
	if err != nil {
		return problem.Wrap(err, "terminal_failed", "the terminal can't be switched to single keys")
	}
	defer term.Restore(int(o.In.Fd()), state)
	fmt.Fprint(o.Out, "\x1b[?1049h") // the alternate screen: what was there comes back
	defer fmt.Fprint(o.Out, "\x1b[?1049l")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &tray{Options: o, updates: make(chan update)}
	t.style = styles(o.Getenv("NO_COLOR") == "" && o.Getenv("TERM") != "dumb")
	go t.readKeys(ctx)
	go t.stayConnected(ctx)
	go t.watchSize(ctx)
	return t.loop(ctx)
}

type tray struct {
	Options
	model
	style   style
	updates chan update
	conn    *ownerapi.Tray
}

func (t *tray) send(ctx context.Context, u update) bool {
	select {
	case t.updates <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *tray) loop(ctx context.Context) error {
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	t.draw()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
			if !t.ticks() {
				continue
			}
		case u := <-t.updates:
			if err := t.take(ctx, u); err != nil {
				return err
			}
		}
		if t.quit {
			return nil
		}
		t.draw()
	}
}

func (t *tray) take(ctx context.Context, u update) error {
	switch {
	case u.decided != nil:
		t.answered(*u.decided, u.err)
	case u.err != nil:
		return u.err
	case u.tray != nil:
		t.conn = u.tray
		t.connection(true)
		for _, e := range u.events {
			t.event(e)
		}
		t.settle()
	case u.lost:
		t.conn = nil
		t.connection(false)
	case u.endOfKeys:
		t.quit = true
	}
	if u.tray == nil {
		for _, e := range u.events {
			t.event(e)
		}
	}
	for _, k := range u.keys {
		if d := t.key(k); d != nil {
			go t.decide(ctx, t.conn, *d)
		}
	}
	return nil
}

func (t *tray) decide(ctx context.Context, conn *ownerapi.Tray, d decision) {
	deadline, cancel := context.WithTimeout(ctx, decideWait)
	defer cancel()
	err := conn.Decide(deadline, d.request.ID, d.request.Digest, d.outcome, d.reason)
	t.send(ctx, update{decided: &d, err: err})
}

// draw writes one whole screen at once. Each line clears its own rest and the
// last one what is below, which flickers less than clearing first.
func (t *tray) draw() {
	cols, rows, err := term.GetSize(int(t.Out.Fd()))
	if err != nil || cols <= 0 || rows <= 0 {
		cols, rows = 80, 24
	}
	lines := t.view(cols, rows, time.Now(), t.style)
	if len(lines) > rows {
		lines = lines[len(lines)-rows:]
	}
	fmt.Fprint(t.Out, "\x1b[?25l\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J\x1b[?25h")
}

func (t *tray) readKeys(ctx context.Context) {
	var pending []byte
	buf := make([]byte, 1024)
	for {
		n, err := t.In.Read(buf)
		if err != nil {
			t.send(ctx, update{endOfKeys: true})
			return
		}
		pending = append(pending, buf[:n]...)
		got, used := keys(pending)
		pending = append(pending[:0], pending[used:]...)
		if len(got) > 0 && !t.send(ctx, update{keys: got}) {
			return
		}
	}
}

func (t *tray) watchSize(ctx context.Context) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			t.send(ctx, update{resized: true})
		case <-ctx.Done():
			return
		}
	}
}

// stayConnected connects, tells the loop what comes, and connects again. Only
// what trying again can't mend ends the tray.
func (t *tray) stayConnected(ctx context.Context) {
	for retry := firstRetry; ; retry = min(retry*2, lastRetry) {
		connected, err := t.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		switch problem.CodeOf(err) {
		case "daemon_unreachable", "daemon_stopping", "owner_instance_changed", "timed_out", "tray_dropped", "owner_key_missing":
		default:
			t.send(ctx, update{err: err})
			return
		}
		if connected {
			retry = firstRetry
			t.send(ctx, update{lost: true})
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return
		}
	}
}

func (t *tray) listen(ctx context.Context) (connected bool, err error) {
	key, err := ownerkey.Load(t.Dirs.OwnerKey())
	if err != nil {
		return false, err
	}
	defer key.Close()
	client, err := ownerapi.NewClient(t.Dirs.OwnerSocket(), key)
	if err != nil {
		return false, err
	}
	defer client.Close()
	if err := traceable(true); err != nil { // or the daemon can't see what it runs
		return false, err
	}
	conn, err := client.Tray(ctx, t.name(), func() error { return traceable(false) })
	if err != nil {
		return false, err
	}
	defer conn.Close()
	events, err := conn.Next(ctx) // what is open
	if err != nil {
		return false, err
	}
	if !t.send(ctx, update{tray: conn, events: events}) {
		return true, ctx.Err()
	}
	for {
		events, err := conn.Next(ctx)
		if err != nil {
			return true, err
		}
		if !t.send(ctx, update{events: events}) {
			return true, ctx.Err()
		}
	}
}

// traceable says whether other processes of the owner may look into this one,
// and so type in its place.
func traceable(yes bool) error {
	value := uintptr(0)
	if yes {
		value = 1
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0); err != nil {
		return problem.Wrap(err, "tray_not_sealed", "the tray can't close itself to other processes")
	}
	return nil
}

// name is how other trays and the record know this one.
func (t *tray) name() string {
	if tty, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", t.In.Fd())); err == nil {
		return "terminal tray on " + tty
	}
	return "terminal tray"
}
