package login

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// Login is one session at logind.
type Login struct {
	UID    uint32
	Class  string // user, greeter, background, …
	Type   string // tty, x11, wayland, mir, unspecified
	State  string // online, active, closing
	Leader int    // the process that made it: login, sshd, a display manager
	TTY    string // of type tty, where logind knows it: tty2, pts/0
}

// Holder is a process that holds the other end of a pseudo-terminal.
type Holder struct {
	PID      int
	Name     string
	Emulator bool // a known terminal emulator
}

// host is what the rule asks of the machine.
type host interface {
	process(pid int) (peer.Stat, error)
	title(pid int) string // as it calls itself
	logins(ctx context.Context) ([]Login, error)
	holders(pts uint32) ([]Holder, error)
	devpts() (uint64, error) // st_dev of /dev/pts
}

// judge returns nil when the terminal is one at which the owner is.
func judge(ctx context.Context, h host, uid uint32, t peer.Terminal) error {
	pts, pseudo := ptsIndex(t.Device)
	if pseudo {
		// Another devpts has terminals of the same numbers.
		if on, err := h.devpts(); err != nil || on != t.On {
			return notThere(t, "is not one of this machine's")
		}
	}
	all, err := h.logins(ctx)
	if err != nil {
		return problem.Wrap(err, "logins_unknown", "logind does not say who is logged in")
	}
	graphical := false
	var texts []Login
	for _, l := range all {
		if l.UID != uid || l.Class != "user" || l.State != "active" && l.State != "online" {
			continue
		}
		switch l.Type {
		case "tty":
			texts = append(texts, l)
		case "x11", "wayland", "mir":
			graphical = true
		}
	}
	if ofLogin(h, texts, t) {
		return nil
	}
	if !pseudo {
		return notThere(t, "is of no login of yours")
	}
	holders, err := h.holders(pts)
	if err != nil {
		return problem.Wrap(err, "logins_unknown", "the processes that hold terminals can't be listed")
	}
	if graphical && slices.ContainsFunc(holders, func(h Holder) bool { return h.Emulator }) {
		return nil
	}
	why := "is of no login of yours"
	if len(holders) > 0 {
		why += fmt.Sprintf(": %s (pid %d) opened it", holders[0].Name, holders[0].PID)
	}
	return notThere(t, why)
}

// ofLogin says whether the terminal is one that a login gave.
func ofLogin(h host, logins []Login, t peer.Terminal) bool {
	name := terminalName(t.Device)
	leader, err := h.process(t.Leader)
	if err != nil || leader.Session != t.Leader || leader.Terminal != t.Device {
		return false
	}
	for _, l := range logins {
		if l.Leader == t.Leader || l.Leader == leader.Parent {
			return l.TTY == name // login(1) on a console
		}
	}
	// sshd has a process of the owner between, which has no terminal itself: a
	// shell at the login's terminal is no way to it for what it starts. logind
	// may not know the terminal, and knows one of several; sshd names them all.
	between, err := h.process(leader.Parent)
	if err != nil || between.Terminal != 0 {
		return false
	}
	for _, l := range logins {
		if l.Leader == between.Parent {
			return l.TTY == name || slices.Contains(sshTerminals(h.title(leader.Parent)), name)
		}
	}
	return false
}

// sshTerminals reads the title that OpenSSH's sshd gives the process that
// serves a user's connection: "sshd: owner@pts/0,pts/1", or "@notty". The
// process can't be looked into or changed by others of its user.
func sshTerminals(title string) []string {
	if !strings.HasPrefix(title, "sshd") {
		return nil
	}
	_, terminals, _ := strings.Cut(title, "@")
	return strings.Split(terminals, ",")
}

func notThere(t peer.Terminal, why string) *problem.Error {
	return problem.New("tray_not_at_login", "the terminal %s %s", terminalName(t.Device), why).
		WithHint("Run it directly where you logged in: on the console, over ssh, or in a terminal window of your desktop; not inside tmux, screen or script. " +
			"For a machine with other ways in, see presence in docs/security.md.")
}

// Majors of linux/Documentation/admin-guide/devices.txt.
const (
	majorConsole = 4
	majorPTSLow  = 136
	majorPTSHigh = 143
)

func ptsIndex(device uint64) (uint32, bool) {
	major := unix.Major(device)
	return (major-majorPTSLow)<<8 | unix.Minor(device), major >= majorPTSLow && major <= majorPTSHigh
}

// terminalName is a terminal as logind names it.
func terminalName(device uint64) string {
	if pts, ok := ptsIndex(device); ok {
		return fmt.Sprintf("pts/%d", pts)
	}
	if n := unix.Minor(device); unix.Major(device) == majorConsole && n < 64 {
		return fmt.Sprintf("tty%d", n)
	}
	return fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
}
