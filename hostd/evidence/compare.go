package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
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

// Known is a content that Sophia itself gave a file while the launch ran: a
// credential that the custodian wrote back for another launch. Path is with
// symbolic links resolved, SHA256 of the content.
type Known struct{ Path, SHA256 string }

// Complete takes the second half and judges the pair. A file that differs but
// has a known content counts as untouched. The evidence is complete also when
// it fails; the error, isolation_evidence_changed, names the files. It must be
// called before this launch's own credential is written back.
func Complete(ctx context.Context, before []messages.SourceState, known ...Known) (messages.Evidence, error) {
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
	e.Changed = slices.DeleteFunc(Compare(before, after), func(path string) bool { return explained(path, known) })
	if len(e.Changed) == 0 {
		e.Changed = nil
	}
	e.Untouched = len(e.Changed) == 0
	if !e.Untouched {
		return e, problem.New("isolation_evidence_changed", "%s changed while the agent ran", strings.Join(e.Changed, ", ")).
			WithHint("If you or another session of yours changed it, nothing is wrong. The agent's configuration home is kept for you to look at.")
	}
	return e, nil
}

// explained tells whether a file has, now, a content that is known.
func explained(path string, known []Known) bool {
	if len(known) == 0 {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	var sum string
	return slices.ContainsFunc(known, func(k Known) bool {
		if k.Path != real {
			return false
		}
		if sum == "" {
			b, err := os.ReadFile(real)
			if err != nil {
				return false
			}
			d := sha256.Sum256(b)
			clear(b)
			sum = hex.EncodeToString(d[:])
		}
		return k.SHA256 == sum
	})
}
