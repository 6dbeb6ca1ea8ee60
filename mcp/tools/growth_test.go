package tools_test

import (
	"strings"
	"testing"

	"sophia/messages"
	"sophia/testkit/storetest"
	whole "sophia/testkit/surface"
)

// What an agent calls first costs the same however much there is, for all
// entities and for one: it is counted in keys that are read.
func TestSurface_FirstCallsDoNotGrowWithTheStore(t *testing.T) {
	calls := []struct {
		tool string
		args map[string]any
	}{
		{"orient", map[string]any{"goal": "how long is a lease"}},
		{"capability_catalog", map[string]any{"brief": true}},
		{"search_documents", map[string]any{"query": "supervision tree", "limit": 3, "compact": true}},
		{"whoami", map[string]any{}},
	}
	for _, entity := range []string{"acme", "beta"} {
		ten, hundred := map[string]int64{}, map[string]int64{}
		for factor, reads := range map[int]map[string]int64{10: ten, 100: hundred} {
			counting := &storetest.Counting{Engine: storetest.NewMemory()}
			s := wholeSurface(t, whole.Options{Engine: counting})
			if err := s.Grow(t.Context(), factor, entity); err != nil {
				t.Fatal(err)
			}
			for _, a := range []messages.Authority{agentA, agentB} {
				for _, c := range calls {
					before := counting.Reads.Load()
					if err := s.Do(t.Context(), a, c.tool, c.args, nil); err != nil {
						t.Fatal(err)
					}
					reads[a.Name+" "+c.tool] = counting.Reads.Load() - before
				}
			}
		}
		for call, n := range hundred {
			switch limit := 2 * ten[call]; { // postings come in blocks of 128
			case strings.HasSuffix(call, "orient") && n > lookedAt:
				t.Errorf("%s reads %d keys of 100 workspaces of %s, at most %d are looked at", call, n, entity, lookedAt)
			case !strings.HasSuffix(call, "orient") && n > limit:
				t.Errorf("%s reads %d keys of 100 workspaces of %s, %d of 10", call, n, entity, ten[call])
			}
		}
	}
}

// lookedAt is what orient reads at most: 200 journal entries, five rows and one
// more of each list, and counts.
const lookedAt = 300
