package terminal_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sophia/hostd/terminal"
	"sophia/hostd/terminal/vt"
)

// sessions are recordings of real programs, 80×24.
func sessions(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range []string{"claude-code", "codex", "htop", "less", "tmux", "vim"} {
		b, err := os.ReadFile(filepath.Join("testdata", "sessions", name+".raw"))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b
	}
	return out
}

// written writes a session as a PTY gives it: in pieces of any size.
func written(b *terminal.Backlog, whole []byte, r *rand.Rand) {
	for len(whole) > 0 {
		n := min(len(whole), 1+r.IntN(500))
		b.Write(whole[:n])
		whole = whole[n:]
	}
}

// Whenever a viewer attaches, it sees from then on what one sees that was there
// from the beginning.
func TestSessions_AttachAnywhereShowsTheSame(t *testing.T) {
	for name, whole := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			want := screen(whole)
			r := rand.New(rand.NewPCG(1, uint64(len(whole))))
			for range 20 {
				at := r.IntN(len(whole) + 1)
				b := terminal.NewBacklog(terminal.DefaultBacklog, terminal.Size{Rows: 24, Cols: 80})
				b.Write(whole[:at])
				f := b.Attach()
				saw, _ := f.Next(t.Context(), nil)
				written(b, whole[at:], r)
				b.Close(terminal.Exit{})
				for more := true; more; {
					var out []byte
					out, more = f.Next(t.Context(), nil)
					saw = append(saw, out...)
				}
				if got := screen(saw); got != want {
					t.Fatalf("attached at byte %d of %d, a viewer sees\n%s\nwant\n%s", at, len(whole), got, want)
				}
			}
		})
	}
}

// The same through the socket, by both ways to a real terminal.
func TestSessions_AViewersTerminalShowsTheSame(t *testing.T) {
	for name, whole := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, host func(context.Context) (int, error)) {
				const end = "\x1b[10;10Hthe end"
				r := rand.New(rand.NewPCG(3, uint64(len(whole))))
				at := r.IntN(len(whole) + 1)
				for !atGround(whole[:at]) { // the first resize is within it else
					at--
				}
				s := serve(t, terminal.DefaultBacklog)
				s.Backlog.Write(whole[:at])
				g := s.glass(t)
				g.look()
				ended := g.attach(t.Context(), host)
				s.await(t, "the viewer", func() bool { return len(s.sizes) >= 2 })
				written(s.Backlog, whole[at:], r)
				s.Backlog.Write([]byte(end))
				s.await(t, "the end", g.sees(end))
				if got, want := screen(g.shown()), screen(append(slices.Clip(whole), end...)); got != want {
					t.Errorf("attached at byte %d of %d, the terminal shows\n%s\nwant\n%s", at, len(whole), got, want)
				}
				g.types("\x1cd")
				if got := <-ended; got.err != nil {
					t.Error(got.err)
				}
			})
		})
	}
}

// A backlog that holds only a session's end, cut wherever it came: what the
// program then paints, as it does when a viewer attaches, looks as if nothing
// had been dropped.
func TestSessions_ReplayCutAnywhereKeepsTheModes(t *testing.T) {
	const paint = "\x1b[H\x1b[2Jpainted \x1b[3;5Hanew \x1b[1mbold\x1b[5;70Hat the margin, and on\r\n\n\n\x1b[22mlqk \x0elqk\x0f"
	for name, whole := range sessions(t) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, uint64(len(whole))))
			for range 25 {
				part := whole[:1+r.IntN(len(whole))]
				if !atGround(part) {
					continue // the program does not paint within a sequence
				}
				b := terminal.NewBacklog(512+r.IntN(len(part)+512), terminal.Size{Rows: 24, Cols: 80})
				written(b, part, r)
				if got, want := screen(append(b.Snapshot(), paint...)), screen(append(slices.Clip(part), paint...)); got != want {
					t.Fatalf("after %d bytes a viewer sees\n%s\nwant\n%s", len(part), got, want)
				}
			}
		})
	}
}

// atGround: outside of every sequence and character.
func atGround(stream []byte) bool {
	tr := vt.NewTracker()
	tr.Write(stream)
	return tr.Ground()
}
