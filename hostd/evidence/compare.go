package evidence

import (
	"context"
	"strings"

	"sophia/messages"
	"sophia/messages/problem"
)

// Compare names the sources that differ, in the order of before. A source that
// only one side has differs.
func Compare(before, after []messages.SourceState) (changed []string) {
	then := make(map[string]messages.SourceState, len(before))
	for _, s := range before {
		then[s.Path] = s
	}
	now := make(map[string]messages.SourceState, len(after))
	for _, s := range after {
		now[s.Path] = s
	}
	for _, s := range before {
		if a, ok := now[s.Path]; !ok || a != s {
			changed = append(changed, s.Path)
		}
	}
	for _, s := range after {
		if _, ok := then[s.Path]; !ok {
			changed = append(changed, s.Path)
		}
	}
	return changed
}

// Complete takes the second half and judges the pair. The evidence is complete
// also when it fails; the error, isolation_evidence_changed, names the files.
// It must be called before a rotated credential is written back.
func Complete(ctx context.Context, before []messages.SourceState) (messages.Evidence, error) {
	sources := make([]string, len(before))
	for i, s := range before {
		sources[i] = s.Path
	}
	e := messages.Evidence{Before: before}
	after, err := Take(ctx, sources)
	if err != nil {
		return e, err
	}
	e.After = after
	e.Changed = Compare(before, after)
	e.Untouched = len(e.Changed) == 0
	if !e.Untouched {
		return e, problem.New("isolation_evidence_changed", "%s changed while the agent ran", strings.Join(e.Changed, ", ")).
			WithHint("If you or another session of yours changed it, nothing is wrong. The agent's configuration home is kept for you to look at.")
	}
	return e, nil
}
