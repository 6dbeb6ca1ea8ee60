package login

import (
	"context"
	"errors"

	"sophia/hostd/peer"
)

// Checker knows where the owner is.
type Checker struct {
	UID       uint32
	Terminals []string // further terminal emulators, absolute paths
	Required  bool     // where there is no logind, nobody is anywhere; else everybody is
}

// Check returns nil when the terminal is one at which the owner is. Codes:
// tray_not_at_login, logins_unknown.
func (c Checker) Check(ctx context.Context, t peer.Terminal) error {
	ctx, cancel := context.WithTimeout(ctx, busWait)
	defer cancel()
	err := judge(ctx, machine{logind: logind{systemBus}, extra: c.Terminals}, c.UID, t)
	if errors.Is(err, errNoLogind) && !c.Required {
		return nil
	}
	return err
}

// Applies says whether a terminal can be refused on this machine at all.
func (c Checker) Applies(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, busWait)
	defer cancel()
	_, err := logind{systemBus}.logins(ctx)
	return c.Required || !errors.Is(err, errNoLogind)
}
