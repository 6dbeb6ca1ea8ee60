package world

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Tray is sophia-tray --terminal with the owner in front of it.
type Tray struct{ *Screen }

// StartTray starts the world's tray.
func (w *World) StartTray(ctx context.Context) error {
	s, err := OnScreen(w.Command(ctx, "sophia-tray", "--terminal"))
	if err != nil {
		return err
	}
	w.Tray = &Tray{s}
	return nil
}

var approveLine = regexp.MustCompile(`Type ([A-Z0-9]+) and Enter to approve`)

// Approve waits until the tray shows a request whose text has what, and types
// the code that is shown with it, as a person would.
func (t *Tray) Approve(ctx context.Context, what string) error {
	if err := t.Answer(ctx, what); err != nil {
		return err
	}
	return t.Shows(ctx, "Approved")
}

// Answer is Approve without waiting for what comes of it.
func (t *Tray) Answer(ctx context.Context, what string) error {
	var code string
	err := t.Until(ctx, func(text string) bool {
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
	t.Clear()
	return t.Type(code + "\r")
}

// Close quits the tray. How it ends says nothing.
func (t *Tray) Close() {
	_ = t.Type("q\r") // it may be gone already
	_ = t.Screen.Close()
}
