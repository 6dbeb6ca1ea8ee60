package unit

import (
	"context"
	"os"

	"sophia/messages/problem"
)

// Description is how the user's manager is reached.
type Description struct {
	Version string
	Bus     bool // over the session bus, not only directly
}

// Describe asks the manager about itself. Error: systemd_unavailable.
func (m *Manager) Describe(ctx context.Context) (Description, error) {
	_, calls, err := m.connection(ctx)
	if err != nil {
		return Description{}, err
	}
	v, err := calls.systemd().GetProperty(managerIf + ".Version")
	if err != nil {
		return Description{}, problem.Wrap(err, "systemd_unavailable", "systemd did not tell its version")
	}
	return Description{Version: text(v), Bus: calls.bus}, nil
}

// UnifiedMount is where the version 2 control-group tree is mounted.
func UnifiedMount() (string, error) { return unifiedMount() }

// OwnGroup is the calling process's group in that tree.
func OwnGroup() (string, error) { return processGroup(os.Getpid()) }
