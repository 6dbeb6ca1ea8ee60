package ownercli

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// jsonHolds compares by value: an editor may have laid the file out anew.
func jsonHolds(text []byte, entry any) bool {
	var config struct {
		MCPServers map[string]any `json:"mcpServers"`
	}
	var want any
	wanted, err := json.Marshal(entry)
	if err != nil || json.Unmarshal(text, &config) != nil || json.Unmarshal(wanted, &want) != nil {
		return false
	}
	return reflect.DeepEqual(config.MCPServers["sophia"], want)
}

func removeMCPServer(text []byte, servers bool) ([]byte, error) {
	after, err := RemoveJSON(text, []string{"mcpServers", "sophia"})
	if err != nil || !servers {
		return after, err
	}
	var left struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(after, &left); err != nil {
		return nil, err
	}
	if len(left.MCPServers) == 0 {
		return RemoveJSON(after, []string{"mcpServers"})
	}
	return after, nil
}

func codexHolds(text []byte, w Wiring) bool {
	config := map[string]any{}
	return toml.Unmarshal(text, &config) == nil && reflect.DeepEqual(takeSophia(config), any(codexValues(w)))
}

// removeCodex takes the table out and leaves the owner's remarks in it. The
// result is read back: nothing else may have changed.
func removeCodex(before []byte) ([]byte, error) {
	var out []string
	inside := false
	for line := range strings.Lines(string(before)) {
		switch {
		case sophiaTable.MatchString(line):
			inside = true
		case anyTable.MatchString(line):
			inside = false
		}
		if trimmed := strings.TrimSpace(line); !inside || trimmed == "" || strings.HasPrefix(trimmed, "#") {
			out = append(out, line)
		}
	}
	after := []byte(strings.Join(out, ""))
	had, has := map[string]any{}, map[string]any{}
	if err := toml.Unmarshal(before, &had); err != nil {
		return nil, fmt.Errorf("it is no well-formed TOML: %w", err)
	}
	if err := toml.Unmarshal(after, &has); err != nil || takeSophia(has) != nil {
		return nil, errors.New("its entry for sophia is written in a way that can't be taken out")
	}
	takeSophia(had)
	if !reflect.DeepEqual(had, has) {
		return nil, errors.New("changing it would change something else")
	}
	return after, nil
}
