package nearest_test

import (
	"slices"
	"testing"

	"sophia/mcp/nearest"
)

func TestNames_SuggestWhatWasMeant(t *testing.T) {
	tools := []string{"query_knowledge", "query_codebase", "search", "search_documents", "orient", "whoami", "read_inbox"}
	for given, want := range map[string]string{
		"queryKnowledge":  "query_knowledge",
		"query_knowlegde": "query_knowledge", // transposed
		"serach":          "search",
		"search_document": "search_documents",
		"inbox":           "read_inbox",
		"who_am_i":        "whoami",
	} {
		if got := nearest.Names(given, tools); len(got) == 0 || got[0] != want {
			t.Errorf("%s: suggested %v, want %s first", given, got, want)
		}
	}
	if got := nearest.Names("launch_missiles", tools); len(got) != 0 {
		t.Errorf("suggested %v for a name that is near nothing", got)
	}
	if got := nearest.Names("search", tools); !slices.Equal(got[:1], []string{"search"}) {
		t.Errorf("the same name is not first: %v", got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("query", "query_knowledge")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := nearest.Names(a, []string{b})
		if a == b && !slices.Equal(got, []string{b}) {
			t.Errorf("%q is not near itself", a)
		}
	})
}
