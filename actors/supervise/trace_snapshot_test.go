package supervise_test

import (
	"strings"

	"sophia/actors/supervise"
)

// snapshot prints what sophia status --tree is made of.
func handleSnapshot(e *traceEnv, _ block) {
	var show func(kids []supervise.Status, depth int)
	show = func(kids []supervise.Status, depth int) {
		for _, s := range kids {
			e.printf("%s%s#%d %s %s, restarts %d, queued %d", strings.Repeat("  ", depth), s.Path, s.Gen, s.Restart, s.State, s.Restarts, s.Queued)
			show(s.Kids, depth+1)
		}
	}
	show(e.tree.Snapshot(), 0)
}
