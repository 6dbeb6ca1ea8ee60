package daemon

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"sophia/hostd/unit"
)

// ForeignHome returns the home of the daemon that runs as the unit, when that
// is another than this environment's: units of one manager share the name, so
// two homes must not take each other's daemon for their own. ours is true when
// it is this one's, or when nothing runs.
func (s *Service) ForeignHome(ctx context.Context) (home string, ours bool, err error) {
	pid, err := s.Manager.MainPID(ctx, unit.DaemonUnit)
	if err != nil || pid == 0 {
		return "", true, err
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", true, nil // it has just ended, or hides itself; it is at least this user's
	}
	home = homeIn(environ)
	return home, home == s.Getenv("SOPHIA_HOME"), nil
}

func homeIn(environ []byte) string {
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if value, found := bytes.CutPrefix(entry, []byte("SOPHIA_HOME=")); found {
			return string(value)
		}
	}
	return ""
}
