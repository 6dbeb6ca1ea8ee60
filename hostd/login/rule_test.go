package login

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// scene is a machine as it was found, written down.
type scene struct {
	procs  map[int]peer.Stat
	titles map[int]string
	all    []Login
	ptys   map[uint32][]Holder
	pts    uint64
	failed error
}

func (s scene) process(pid int) (peer.Stat, error) {
	p, ok := s.procs[pid]
	if !ok {
		return p, fs.ErrNotExist
	}
	return p, nil
}
func (s scene) title(pid int) string                    { return s.titles[pid] }
func (s scene) logins(context.Context) ([]Login, error) { return s.all, s.failed }
func (s scene) holders(pts uint32) ([]Holder, error)    { return s.ptys[pts], nil }
func (s scene) devpts() (uint64, error)                 { return s.pts, nil }

const (
	owner  = 1001
	devpts = 25
)

func pts(n uint32) uint64 { return unix.Mkdev(136, n) }
func vt(n uint32) uint64  { return unix.Mkdev(4, n) }

// at is a terminal that leader leads.
func at(device uint64, leader int) peer.Terminal {
	return peer.Terminal{Device: device, On: devpts, Leader: leader}
}

// machineOf has an ssh login with two terminals, one on the console, and a
// desktop; the numbers of the first are those that were measured.
func machineOf() scene {
	return scene{
		pts: devpts,
		procs: map[int]peer.Stat{
			190: {Name: "sshd", Parent: 166, Session: 190},
			196: {Name: "sshd", Parent: 190, Session: 190},
			197: {Name: "bash", Parent: 196, Session: 197, Terminal: pts(0)},
			198: {Name: "bash", Parent: 196, Session: 198, Terminal: pts(1)},
			250: {Name: "agent", Parent: 197, Session: 250, Terminal: pts(7)}, // made itself a terminal in the owner's shell
			260: {Name: "agent", Parent: 196, Session: 260, Terminal: pts(8)}, // started by sshd, and made itself one
			300: {Name: "login", Parent: 1, Session: 300, Terminal: vt(2)},
			301: {Name: "bash", Parent: 300, Session: 301, Terminal: vt(2)},
			302: {Name: "sshd", Parent: 301, Session: 302, Terminal: pts(9)}, // calls itself so
			344: {Name: "systemd", Parent: 1, Session: 344},
			400: {Name: "bash", Parent: 399, Session: 400, Terminal: pts(3)},
			399: {Name: "gnome-terminal-", Parent: 344, Session: 344},
			500: {Name: "sh", Parent: 499, Session: 500, Terminal: pts(4)},
			499: {Name: "systemd-run", Parent: 344, Session: 344},
		},
		titles: map[int]string{196: "sshd: owner@pts/0,pts/1", 301: "sshd: owner@pts/9", 399: "/usr/libexec/gnome-terminal-server"},
		all: []Login{
			{UID: owner, Class: "user", Type: "tty", State: "active", Leader: 190, TTY: "pts/0"},
			{UID: owner, Class: "user", Type: "tty", State: "active", Leader: 300, TTY: "tty2"},
			{UID: owner, Class: "user", Type: "wayland", State: "active", Leader: 320, TTY: "tty1"},
		},
		ptys: map[uint32][]Holder{
			3: {{PID: 399, Name: "gnome-terminal-", Emulator: true}}, 4: {{PID: 499, Name: "systemd-run"}}, 7: {{PID: 250, Name: "script"}},
		},
	}
}

func TestLogin_TerminalsWhereTheOwnerIs(t *testing.T) {
	for name, c := range map[string]struct {
		t      peer.Terminal
		change func(*scene)
		why    string // "" is good
	}{
		"ssh":                         {t: at(pts(0), 197)},
		"ssh, logind knows no tty":    {t: at(pts(0), 197), change: func(s *scene) { s.all[0].TTY = "" }},
		"ssh, a second terminal":      {t: at(pts(1), 198)},
		"the console":                 {t: at(vt(2), 301)},
		"a desktop's window":          {t: at(pts(3), 400)},
		"a terminal of systemd-run":   {t: at(pts(4), 500), why: "systemd-run (pid 499) opened it"},
		"script in an ssh login":      {t: at(pts(7), 250), why: "script (pid 250) opened it"},
		"an agent that sshd started":  {t: at(pts(8), 260), why: "of no login"},
		"one that calls itself sshd":  {t: at(pts(9), 302), why: "of no login"},
		"another devpts":              {t: peer.Terminal{Device: pts(0), On: devpts + 1, Leader: 197}, why: "not one of this machine's"},
		"a window, and no desktop":    {t: at(pts(3), 400), change: func(s *scene) { s.all = s.all[:2] }, why: "gnome-terminal- (pid 399) opened it"},
		"a desktop that is closing":   {t: at(pts(3), 400), change: func(s *scene) { s.all[2].State = "closing" }, why: "of no login"},
		"a desktop of somebody else":  {t: at(pts(3), 400), change: func(s *scene) { s.all[2].UID = 7 }, why: "of no login"},
		"a login screen":              {t: at(pts(3), 400), change: func(s *scene) { s.all[2].Class = "greeter" }, why: "of no login"},
		"a login of somebody else":    {t: at(pts(0), 197), change: func(s *scene) { s.all[0].UID = 7 }, why: "of no login"},
		"a login that is closing":     {t: at(pts(0), 197), change: func(s *scene) { s.all[0].State = "closing" }, why: "of no login"},
		"a background session":        {t: at(pts(0), 197), change: func(s *scene) { s.all[0].Class = "background" }, why: "of no login"},
		"ssh without a terminal":      {t: at(pts(0), 197), change: func(s *scene) { s.all[0].TTY, s.titles[196] = "", "sshd: owner@notty" }, why: "of no login"},
		"the console, no tty known":   {t: at(vt(2), 301), change: func(s *scene) { s.all[1].TTY = "" }, why: "of no login"},
		"led by who left it":          {t: at(pts(0), 250), why: "of no login"},
		"led by nobody":               {t: at(pts(0), 999), why: "of no login"},
		"logind does not answer":      {t: at(pts(0), 197), change: func(s *scene) { s.failed = errors.New("no answer") }, why: "logind does not say"},
		"another console than logind": {t: at(vt(3), 301), why: "of no login"},
	} {
		s := machineOf()
		if c.change != nil {
			c.change(&s)
		}
		err := judge(t.Context(), s, owner, c.t)
		if (err == nil) != (c.why == "") || err != nil && (!strings.Contains(err.Error(), c.why) || problem.CodeOf(err) == "") {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// A machine without logind takes every terminal, unless the owner wants none of
// that.
func TestLogin_NoLogindAnswers(t *testing.T) {
	s := machineOf()
	s.failed = errNoLogind
	if err := judge(t.Context(), s, owner, at(pts(4), 500)); !errors.Is(err, errNoLogind) {
		t.Errorf("%v", err)
	}
}
