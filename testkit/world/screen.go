package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"sync"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Screen is a program on a PTY and what it printed, escape sequences taken out
// as far as finding words goes. It reads always, as a terminal does, and
// answers what programs ask of a terminal.
type Screen struct {
	Cmd *exec.Cmd

	tty     *os.File
	mu      sync.Mutex
	raw     []byte // since Clear, at most keep
	total   int
	ended   bool
	changed chan struct{} // closed and replaced at each change
	done    chan struct{} // the reader has returned
}

// keep bounds what a screen remembers, in bytes.
const keep = 1 << 20

// OnScreen starts a program on a PTY of 50 rows and 140 columns.
func OnScreen(c *exec.Cmd) (*Screen, error) {
	// As a shell's, it starts with Ctrl-C not ignored, even where this process is in
	// the background of a script: what is caught here is at its default there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt)
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 50, Cols: 140})
	signal.Stop(caught)
	if err != nil {
		return nil, err
	}
	// Polled, so that Close takes the terminal away from under a reader.
	fd, err := unix.FcntlInt(tty.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	tty.Close()
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = c.Process.Kill()
		return nil, errors.Join(err, c.Wait())
	}
	tty = os.NewFile(uintptr(fd), tty.Name())
	s := &Screen{Cmd: c, tty: tty, changed: make(chan struct{}), done: make(chan struct{})}
	go s.read()
	return s, nil
}

func (s *Screen) read() {
	defer close(s.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := s.tty.Read(buf)
		s.answer(buf[:n])
		s.mu.Lock()
		s.raw = append(s.raw, buf[:n]...)
		if extra := len(s.raw) - keep; extra > 0 {
			s.raw = append(s.raw[:0], s.raw[extra:]...)
		}
		s.total += n
		s.ended = err != nil
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?<>=!]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[@-Z\\-_=>78]`)

// Text is what was printed since the last Clear.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(escapes.ReplaceAll(s.raw, nil))
}

// Bytes is how many bytes were printed in all.
func (s *Screen) Bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// ErrEnded is a program that ended before it printed what was waited for.
var ErrEnded = errors.New("the program ended")

// Until waits until the text satisfies done.
func (s *Screen) Until(ctx context.Context, done func(text string) bool) error {
	for {
		s.mu.Lock()
		changed, ended := s.changed, s.ended
		s.mu.Unlock()
		text := s.Text()
		switch {
		case done(text):
			return nil
		case ended:
			return fmt.Errorf("%w; it said:\n%s", ErrEnded, tail(text))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen has:\n%s", context.Cause(ctx), tail(text))
		}
	}
}

// Shows waits until words are on the screen.
func (s *Screen) Shows(ctx context.Context, words string) error {
	if err := s.Until(ctx, func(text string) bool { return strings.Contains(text, words) }); err != nil {
		return fmt.Errorf("waiting for %q: %w", words, err)
	}
	return nil
}

// Type types keys.
func (s *Screen) Type(keys string) error {
	_, err := s.tty.WriteString(keys)
	return err
}

// Clear forgets what was printed.
func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = s.raw[:0]
}

// Wait waits for the program's end and for all that it printed.
func (s *Screen) Wait() error {
	<-s.done
	s.tty.Close()
	return s.Cmd.Wait()
}

// Close takes the terminal away, which ends most programs, and waits for the
// program's end.
func (s *Screen) Close() error {
	s.tty.Close()
	<-s.done
	return s.Cmd.Wait()
}

var answers = map[string]string{
	"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c", "\x1b[?u": "\x1b[?0u",
	"\x1b]10;?": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;?": "\x1b]11;rgb:0000/0000/0000\x1b\\",
}

func (s *Screen) answer(b []byte) {
	for query, reply := range answers {
		if strings.Contains(string(b), query) {
			_, _ = s.tty.WriteString(reply) // a program that has ended needs no answer
		}
	}
}

func tail(text string) string {
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return text
}
