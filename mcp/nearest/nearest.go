// Package nearest finds the names that a misspelt one probably meant.
package nearest

import (
	"slices"
	"strings"
)

// Names returns up to three of among, nearest first, that are near enough to
// name to be worth suggesting. Letter case, dots, dashes and underscores don't
// count as differences, so queryKnowledge finds query_knowledge.
func Names(name string, among []string) []string {
	type scored struct {
		name string
		d    int
	}
	want := plain(name)
	limit := max(2, len(want)/3)
	var near []scored
	for _, a := range among {
		p := plain(a)
		d := distance(want, p, limit)
		if d > limit && len(want) >= 4 && (strings.Contains(p, want) || strings.Contains(want, p) && len(p) >= 4) {
			d = limit
		}
		if d <= limit {
			near = append(near, scored{a, d})
		}
	}
	slices.SortStableFunc(near, func(a, b scored) int { return a.d - b.d })
	if len(near) > 3 {
		near = near[:3]
	}
	out := make([]string, len(near))
	for i, n := range near {
		out[i] = n.name
	}
	return out
}

func plain(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.NewReplacer(".", "", "_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance is the optimal string alignment distance (Levenshtein with
// transpositions), or more than limit where it is more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
