package tools

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"sophia/mcp/registry"
)

// Action is a call that is worth making next.
type Action struct {
	Tool      string          `json:"tool" jsonschema:"that you can call from where you are"`
	Arguments json.RawMessage `json:"arguments"`
	Why       string          `json:"why"`
}

// candidate is an action that may be recommended: the first of its ways that
// the caller can call. Score 0 is not worth it.
type candidate struct {
	ways  []way
	why   string
	score int
}

type way struct {
	tool string // without the prefix
	args any
}

type object map[string]any

// Recommend picks what to do next from what is callable and from nothing else:
// a candidate whose tool is out of reach is made through another tool that is
// not, through a script where that helps, or dropped.
func Recommend(c *registry.Call, goal string, f Facts) []Action {
	return pick(c, candidates(goal, f), 5)
}

func candidates(goal string, f Facts) []candidate {
	has := func(n, score int) int {
		if n > 0 {
			return score
		}
		return 0
	}
	all := []candidate{
		{[]way{{"read_inbox", object{"summary_only": true}}}, "Posts wait for you.", has(f.Unread, 100)},
		{[]way{{"list_interrupts", object{}}, {"orient", object{"sections": []string{"interrupts"}}}}, "Something was raised that should interrupt.", has(f.Interrupts, 90)},
		{[]way{{"capability_catalog", object{"brief": true}}}, "The list of what you can call, with its version.", 20},
	}
	if goal != "" {
		all = append(all,
			candidate{[]way{{"search", object{"query": goal, "limit": 5, "compact": true}}, {"search_documents", object{"query": goal, "limit": 5, "compact": true}}},
				"Look for what is known about the goal.", has(f.Documents+f.Facts+f.Pages, 80)},
			candidate{[]way{{"query_knowledge", object{"query": goal, "compact": true}}}, "Facts may bear on the goal.", has(f.Facts, 70)},
			candidate{[]way{{"search_documents", object{"query": goal, "limit": 5, "compact": true}}}, "Documents may bear on the goal.", has(f.Documents, 60)},
			candidate{[]way{{"query_codebase", object{"kind": "symbols", "query": goal, "compact": true}}}, "The goal seems to be about code.", has(f.Symbols, codeScore(goal))},
		)
	}
	return append(all,
		candidate{[]way{{"query_codebase", object{"kind": "overview"}}}, "An overview of the imported code.", has(f.Modules, 30)},
		candidate{[]way{{"query_documents", object{"limit": 5, "compact": true}}}, "The imported documents.", has(f.Documents, 25)},
		candidate{[]way{{"list_mutations", object{"limit": 5, "compact": true}}}, "What changed last.", 15},
	)
}

func codeScore(goal string) int {
	for _, w := range strings.Fields(strings.ToLower(goal)) {
		if slices.Contains([]string{"code", "function", "func", "bug", "test", "tests", "refactor", "implement", "compile", "module", "package", "api"}, w) {
			return 75
		}
	}
	return 40
}

// likely is what callers usually do next, whatever there is.
func likely(c *registry.Call, goal string) []Action {
	query := cmp.Or(goal, "…")
	return pick(c, []candidate{
		{[]way{{"execute_code", object{"code": script(c, query)}}}, "Several reads in one call.", 3},
		{[]way{{"search", object{"query": query, "compact": true}}, {"search_documents", object{"query": query, "compact": true}}}, "Search.", 2},
		{[]way{{"read_inbox", object{"summary_only": true}}}, "Posts from other agents.", 1},
	}, 3)
}

// script composes reads that this caller's scripts can make.
func script(c *registry.Call, query string) string {
	q, _ := json.Marshal(query)
	var calls []string
	for _, m := range []struct{ tool, call string }{
		{"search_documents", "sophia.searchDocuments({query: " + string(q) + ", compact: true})"},
		{"query_knowledge", "sophia.queryKnowledge({compact: true})"},
		{"capability_catalog", "sophia.capabilityCatalog({brief: true})"},
	} {
		if c.Within.Has(m.tool) {
			calls = append(calls, m.call)
		}
	}
	return "return await Promise.all([" + strings.Join(calls, ", ") + "]);"
}

func pick(c *registry.Call, all []candidate, limit int) []Action {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var out []Action
	seen := map[string]bool{}
	for _, a := range all {
		if a.score == 0 || len(out) == limit {
			continue
		}
		action, ok := reach(c, a)
		if key := action.Tool + string(action.Arguments); ok && !seen[key] {
			seen[key] = true
			out = append(out, action)
		}
	}
	return out
}

// reach finds the first way that the caller can go.
func reach(c *registry.Call, a candidate) (Action, bool) {
	for _, w := range a.ways {
		if c.Callable.Has(w.tool) && accepted(c.Callable, w) {
			return action(w, a.why), true
		}
	}
	if !c.Callable.Has("execute_code") {
		return Action{}, false
	}
	for _, w := range a.ways {
		if c.Within.Has(w.tool) && accepted(c.Within, w) {
			args, _ := json.Marshal(w.args)
			code := "return await sophia." + registry.Camel(w.tool) + "(" + string(args) + ");"
			return action(way{"execute_code", object{"code": code}}, a.why), true
		}
	}
	return Action{}, false
}

// accepted says whether the tool takes these arguments: a recommendation that
// would be refused is none.
func accepted(s *registry.Set, w way) bool {
	t, err := s.Find(w.tool)
	if err != nil {
		return false
	}
	args, err := json.Marshal(w.args)
	return err == nil && t.Check(args) == nil
}

func action(w way, why string) Action {
	args, _ := json.Marshal(w.args)
	return Action{Tool: registry.Prefix + w.tool, Arguments: args, Why: why}
}
