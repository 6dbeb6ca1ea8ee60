package terminal_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"sophia/hostd/terminal"
)

// Recorded sessions of real programs, 80×24. Whenever a viewer attaches, it
// sees from then on what one sees that was there from the beginning.
func TestSessions_AttachAnywhereShowsTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/sessions/*.raw")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := screen(whole)
			r := rand.New(rand.NewPCG(1, uint64(len(whole))))
			for range 40 {
				at := r.IntN(len(whole) + 1)
				b := terminal.NewBacklog(terminal.DefaultBacklog, terminal.Size{Rows: 24, Cols: 80})
				b.Write(whole[:at])
				f := b.Attach()
				saw, _ := f.Next(t.Context(), nil)
				for rest := whole[at:]; len(rest) > 0; {
					n := min(len(rest), 1+r.IntN(500))
					b.Write(rest[:n])
					rest = rest[n:]
				}
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
