package terminal

import (
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
)

func TestGlass_WhoseKeysTheyAre(t *testing.T) {
	here, elsewhere := unix.Mkdev(136, 4), unix.Mkdev(136, 5)
	for name, c := range map[string]struct {
		stat peer.Stat
		want bool
	}{
		"it waits for them":                 {peer.Stat{State: 'S', Group: 7, Foreground: 7, Terminal: here}, true},
		"it runs":                           {peer.Stat{State: 'R', Group: 7, Foreground: 7, Terminal: here}, true},
		"stopped":                           {peer.Stat{State: 'T', Group: 7, Foreground: 7, Terminal: here}, false},
		"a debugger holds it":               {peer.Stat{State: 't', Group: 7, Foreground: 7, Terminal: here}, false},
		"dead":                              {peer.Stat{State: 'Z', Group: 7, Foreground: 7, Terminal: here}, false},
		"in the background":                 {peer.Stat{State: 'S', Group: 7, Foreground: 3, Terminal: here}, false},
		"in the background of another":      {peer.Stat{State: 'S', Group: 7, Foreground: 3, Terminal: elsewhere}, true},
		"stopped in another":                {peer.Stat{State: 'T', Group: 7, Foreground: 3, Terminal: elsewhere}, false},
		"without a terminal of its session": {peer.Stat{State: 'S', Group: 7, Foreground: -1}, true},
	} {
		if got := hasKeys(c.stat, here); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
