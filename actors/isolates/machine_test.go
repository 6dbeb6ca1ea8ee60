package isolates

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
)

// Any order of events, hostile ones included: a run ends once, a call is started
// and answered at most once, at most fifty are made, the time that was paused
// does not count, and the result is well-formed.
func TestMachine_AnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		m := newMachine(now, messages.RunRequest{TimeoutMS: 2000, Methods: []messages.Method{{Name: "a", Tool: "t.a"}}}, &script.Program{})
		started, answered, under := map[uint32]int{}, map[uint32]int{}, map[uint32]bool{}
		stops, kills := 0, 0
		paused := 0
		var active time.Duration
		do := func(actions []action) {
			for _, a := range actions {
				switch a := a.(type) {
				case startCall:
					started[a.id]++
					under[a.id] = true
				case send:
					switch a.Kind {
					case wire.Result:
						if !m.byIDstarted(a.ID) {
							continue // a refusal
						}
						answered[a.ID]++
					case wire.Stop:
						stops++
					}
				case kill:
					kills++
				}
			}
		}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			over := m.over
			switch rapid.SampledFrom([]string{"began", "call", "call", "call", "return", "advance", "advance", "pause", "resume", "log", "done", "failed", "cancel", "exit", "odd"}).Draw(t, "event") {
			case "began":
				do(m.frame(now, wire.Frame{Kind: wire.Began}))
			case "call":
				tool := rapid.SampledFrom([]string{"t.a", "t.a", "t.a", "t.b"}).Draw(t, "tool")
				do(m.frame(now, wire.Frame{Kind: wire.Call, ID: rapid.Uint32Range(0, 200).Draw(t, "id"), Name: tool, Payload: []byte("{}")}))
			case "return":
				for id := range under {
					delete(under, id)
					var err error
					if rapid.Bool().Draw(t, "fails") {
						err = errors.New("x")
					}
					do(m.returned(now, id, json.RawMessage("1"), err))
					break
				}
			case "advance":
				d := time.Duration(rapid.IntRange(1, 700).Draw(t, "ms")) * time.Millisecond
				if at, ok := m.next(now); ok && at.Before(now) {
					t.Fatalf("wants to be woken in the past")
				}
				now = now.Add(d)
				if paused == 0 {
					active += d
				}
				do(m.tick(now))
			case "pause":
				m.pause(now)
				paused++
			case "resume":
				if paused > 0 {
					m.resume(now)
					paused--
				}
			case "log":
				do(m.frame(now, wire.Frame{Kind: wire.Log, Payload: []byte{'x', 0xff}}))
			case "done":
				do(m.frame(now, wire.Frame{Kind: wire.Done, Payload: []byte("5")}))
			case "failed":
				do(m.frame(now, wire.Frame{Kind: wire.Failed, Payload: []byte(`{"kind":"nonsense","message":"m"}`)}))
			case "cancel":
				do(m.stop(now, stopCancelled))
			case "exit":
				if actions, began := m.exited(now, Exit{Signal: "killed"}); began {
					do(actions)
				}
			case "odd":
				do(m.frame(now, wire.Frame{Kind: wire.Ready}))
			}
			if over && !m.over {
				t.Fatal("a run that was over goes on")
			}
			if got := m.active(now); got != active {
				t.Fatalf("active time %v, want %v", got, active)
			}
		}
		if stops > 1 || kills > 2 || len(started) > MaxCalls {
			t.Fatalf("%d stops, %d kills, %d calls", stops, kills, len(started))
		}
		for id, n := range started {
			if n != 1 || answered[id] > 1 {
				t.Fatalf("call %d started %d times and answered %d times", id, n, answered[id])
			}
		}
		if !m.over {
			return
		}
		r := m.result()
		if (r.Status == messages.RunOK) != (r.Error == nil) || r.Logs == nil || r.SophiaCalls != len(r.Calls) || r.Pending > len(r.Calls) || r.Error != nil && (r.Value != nil || r.Error.Kind == "nonsense") {
			t.Fatalf("%+v", r)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

func (m *machine) byIDstarted(id uint32) bool { return m.byID[id] != nil }
