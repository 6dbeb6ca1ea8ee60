package unit

import (
	"context"
	"time"

	"github.com/godbus/dbus/v5"

	"sophia/messages"
)

// Watch delivers the state of this activation: the present one first, then
// each change, until it is over or ctx ends; then the channel is closed. The
// receiver may be slow: it gets the newest state.
//
// When the connection is lost, Watch connects again. While systemd can't be
// reached at all it looks at the control group itself, and an empty one is the
// end: Gone. So the last state is Over unless ctx ended.
func (m *Manager) Watch(ctx context.Context, ref messages.UnitRef) <-chan State {
	out := make(chan State, 1)
	w := watcher{m: m, ref: ref, out: out}
	go func() {
		defer close(out)
		w.run(ctx)
	}()
	return out
}

const (
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 2 * time.Second
)

type watcher struct {
	m    *Manager
	ref  messages.UnitRef
	out  chan State
	last State
	any  bool
}

func (w *watcher) run(ctx context.Context) {
	wait := reconnectMin
	for ctx.Err() == nil {
		over, connected := w.session(ctx)
		if over {
			w.m.Release(ctx, w.ref.Name)
			return
		}
		if connected {
			wait = reconnectMin
		} else if g, err := OpenGroup(w.ref); err == nil {
			populated, err := g.Populated()
			g.Close()
			if err == nil && !populated {
				w.tell(State{InvocationID: w.ref.InvocationID, Active: Gone})
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, reconnectMax)
	}
}

// session watches over one connection until the unit is over or the
// connection is.
func (w *watcher) session(ctx context.Context) (over, connected bool) {
	l, err := dial(ctx, w.m.getenv)
	if err != nil {
		return false, false
	}
	defer l.Close()
	signals := make(chan *dbus.Signal, 64)
	l.Signal(signals)
	if l.bus {
		for _, rule := range [][]dbus.MatchOption{
			{dbus.WithMatchObjectPath(objectPath(w.ref.Name)), dbus.WithMatchInterface("org.freedesktop.DBus.Properties")},
			{dbus.WithMatchInterface(managerIf), dbus.WithMatchMember("UnitRemoved"), dbus.WithMatchArg(0, w.ref.Name)},
			{dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, busName)},
		} {
			if err := l.AddMatchSignalContext(ctx, rule...); err != nil {
				return false, false
			}
		}
	}
	if err := l.systemd().CallWithContext(ctx, managerIf+".Subscribe", 0).Err; err != nil {
		return false, false
	}
	for {
		st, err := inspect(ctx, l, w.ref.Name)
		if err != nil {
			return false, false
		}
		if st.Active == Gone || st.InvocationID != w.ref.InvocationID {
			st = State{InvocationID: w.ref.InvocationID, Active: Gone}
		}
		w.tell(st)
		if st.Over() {
			return true, true
		}
		select {
		case s, ok := <-signals:
			if !ok || s.Name == "org.freedesktop.DBus.NameOwnerChanged" {
				return false, true // systemd left the bus, or the bus is gone
			}
		case <-l.Context().Done():
			return false, true
		case <-ctx.Done():
			return false, true
		}
	}
}

// tell delivers a state unless it is the one told last; a state that nobody
// has taken yet is replaced.
func (w *watcher) tell(s State) {
	if w.any && s == w.last {
		return
	}
	w.last, w.any = s, true
	select {
	case <-w.out:
	default:
	}
	w.out <- s // the only sender, and there is room
}
