package contracts

import (
	"maps"
	"slices"
	"strings"

	"sophia/messages/problem"
)

// merge adds the owner's table to what Sophia sets. What Sophia sets can't be
// overridden, and neither can the reserved keys (dotted, a whole subtree):
// a second MCP server would be a second way out of the plan.
func merge(harness string, ours, owners map[string]any, reserved ...string) (map[string]any, error) {
	out := maps.Clone(ours)
	if err := mergeInto(harness, "", out, owners, reserved); err != nil {
		return nil, err
	}
	return out, nil
}

func mergeInto(harness, at string, ours, owners map[string]any, reserved []string) error {
	for _, key := range slices.Sorted(maps.Keys(owners)) {
		name := strings.TrimPrefix(at+"."+key, ".")
		refused := problem.New("harness_setting_reserved", "config.toml sets %s for %s, which Sophia sets for every launch", name, harness).
			WithHint("Remove %s from [harness.%s.config].", name, harness)
		if slices.Contains(reserved, name) {
			return refused
		}
		have, clash := ours[key]
		if !clash {
			ours[key] = owners[key]
			continue
		}
		mine, ok1 := have.(map[string]any)
		theirs, ok2 := owners[key].(map[string]any)
		if !ok1 || !ok2 {
			return refused
		}
		sub := maps.Clone(mine)
		if err := mergeInto(harness, name, sub, theirs, reserved); err != nil {
			return err
		}
		ours[key] = sub
	}
	return nil
}
