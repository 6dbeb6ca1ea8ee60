package terminal

import (
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"sophia/messages/problem"
)

// line is a terminal's line discipline, termios(3), and how it was before an
// agent got the keys.
type line struct {
	fd  int
	old unix.Termios
}

// lineOf returns nil for what is no terminal.
func lineOf(fd int) (*line, error) {
	if !term.IsTerminal(fd) {
		return nil, nil
	}
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, unusable(err)
	}
	return &line{fd, *old}, nil
}

func unusable(err error) error {
	return problem.Wrap(err, "terminal_unusable", "This terminal can't be switched to raw mode")
}

// raw gives every key to who reads the line. signals is whether Ctrl-C and
// others still make signals of their own.
func (l *line) raw(signals bool) error {
	modes := rawOf(l.old, signals)
	if err := unix.IoctlSetTermios(l.fd, unix.TCSETS, &modes); err != nil {
		return unusable(err)
	}
	return nil
}

// rawOf is what cfmakeraw, termios(3), makes of a line.
func rawOf(t unix.Termios, signals bool) unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	if signals {
		t.Lflag |= unix.ISIG
	}
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return t
}

func (l *line) restore() {
	// Answers to the agent's last queries must not be typed into the shell.
	_ = unix.IoctlSetInt(l.fd, unix.TCFLSH, unix.TCIFLUSH)
	_ = unix.IoctlSetTermios(l.fd, unix.TCSETS, &l.old)
}

// abandoned tells whether the line is as raw left it: nobody has restored it,
// nor set it to what else a program needs.
func (l *line) abandoned() bool {
	now, err := unix.IoctlGetTermios(l.fd, unix.TCGETS)
	return err == nil && (*now == rawOf(l.old, false) || *now == rawOf(l.old, true))
}
