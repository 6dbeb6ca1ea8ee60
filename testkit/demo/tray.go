package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
)

// tray is sophia-tray --terminal on a PTY, with the owner in front of it.
type tray struct {
	*screen
	cmd *exec.Cmd
}

func (w *world) startTray(ctx context.Context) (*tray, error) {
	c := w.command(ctx, "sophia-tray", "--terminal")
	s, err := startOnScreen(c)
	if err != nil {
		return nil, err
	}
	return &tray{s, c}, nil
}

var approveLine = regexp.MustCompile(`Type ([A-Z0-9]+) and Enter to approve`)

// approve waits until the tray shows a request whose text has what, and types
// the code that is shown with it, as a person would.
func (t *tray) approve(ctx context.Context, what string) error {
	var code string
	err := t.until(ctx, func(text string) bool {
		i := strings.LastIndex(text, what)
		if i < 0 {
			return false
		}
		m := approveLine.FindAllStringSubmatch(text[i:], -1)
		if m == nil {
			return false
		}
		code = m[len(m)-1][1]
		return true
	})
	if err != nil {
		return fmt.Errorf("the tray did not ask about %q: %w", what, err)
	}
	t.clear()
	if _, err := t.tty.WriteString(code + "\r"); err != nil {
		return err
	}
	return t.until(ctx, func(text string) bool { return strings.Contains(text, "Approved") })
}

func (t *tray) close() {
	_, _ = t.tty.WriteString("q\r") // it may be gone already
	t.screen.close()
	_ = t.cmd.Wait() // how the tray ends says nothing about the demo
}

// screen is the other side of a PTY: what a program printed, escape sequences
// taken out, as far as finding words goes.
type screen struct {
	tty  *os.File
	in   chan []byte
	text strings.Builder
	raw  int
}

func startOnScreen(c *exec.Cmd) (*screen, error) {
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 50, Cols: 140})
	if err != nil {
		return nil, err
	}
	s := &screen{tty: tty, in: make(chan []byte, 64)}
	go func() {
		defer close(s.in)
		buf := make([]byte, 32<<10)
		for {
			n, err := tty.Read(buf)
			if n > 0 {
				s.in <- append([]byte(nil), buf[:n]...)
			}
			if err != nil {
				return
			}
		}
	}()
	return s, nil
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?<>=!]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[@-Z\\-_=>78]`)

// until reads until the text so far satisfies done. It answers what programs
// ask of a terminal: who it is and where the cursor stands.
func (s *screen) until(ctx context.Context, done func(text string) bool) error {
	for {
		if done(s.text.String()) {
			return nil
		}
		select {
		case b, ok := <-s.in:
			if !ok {
				return fmt.Errorf("the program ended; it said:\n%s", tail(s.text.String()))
			}
			s.raw += len(b)
			s.answer(b)
			s.text.WriteString(escapes.ReplaceAllString(string(b), ""))
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen has:\n%s", context.Cause(ctx), tail(s.text.String()))
		}
	}
}

func (s *screen) answer(b []byte) {
	for query, reply := range map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62;c", "\x1b[?u": "\x1b[?0u", "\x1b]10;?": "\x1b]10;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;?": "\x1b]11;rgb:0000/0000/0000\x1b\\"} {
		if strings.Contains(string(b), query) {
			_, _ = s.tty.WriteString(reply) // a program that has ended needs no answer
		}
	}
}

func (s *screen) clear() { s.text.Reset() }

func (s *screen) close() { s.tty.Close() }

func tail(text string) string {
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return text
}

// step bounds one thing that is waited for.
func step(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 90*time.Second)
}
