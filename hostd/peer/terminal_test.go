package peer

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestStat_IsReadWhateverTheNameIs(t *testing.T) {
	for text, want := range map[string]Stat{
		"197 (bash) S 196 197 197 34816 300 4194304 0 0": {Name: "bash", State: 'S', Parent: 196, Group: 197, Session: 197, Terminal: unix.Mkdev(136, 0), Foreground: 300},
		"7 (a) S 1 (b) ) R 6 5 4 1027 -1 0":              {Name: "a) S 1 (b) ", State: 'R', Parent: 6, Group: 5, Session: 4, Terminal: unix.Mkdev(4, 3), Foreground: -1},
		"19 (sshd) S 1 19 19 0 -1 4194560":               {Name: "sshd", State: 'S', Parent: 1, Group: 19, Session: 19, Foreground: -1},
		"300 (sh) S 299 300 300 1083400 -1 0":            {Name: "sh", State: 'S', Parent: 299, Group: 300, Session: 300, Terminal: unix.Mkdev(136, 264), Foreground: -1},
		"300 (sh) S 299 300":                             {},
		"300 sh S 299 300 300 0":                         {},
		"":                                               {},
	} {
		got, ok := ParseStat(text)
		if ok != (want != Stat{}) || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
}
