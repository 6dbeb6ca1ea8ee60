package ownercli_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/hostd/terminal"
	"sophia/messages"
)

// relay answers a launch's terminal socket with text, to whoever asks for the
// tail; a viewer is not what it is for.
func (s *shell) relay(launch, text string) {
	s.t.Helper()
	dir := filepath.Join(s.home, "run", "launches", launch)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "terminal.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	s.t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var buf []byte
			if kind, _, err := terminal.ReadFrame(conn, &buf, 1<<10); err != nil || kind != terminal.FrameTail {
				s.t.Errorf("asked with %c, %v", kind, err)
			}
			if err := terminal.WriteFrame(conn, terminal.FrameOutput, []byte(text)); err != nil {
				s.t.Error(err)
			}
			conn.Close()
		}
	}()
}

func TestAgentLogs_PrintsTheTailAsPlainText(t *testing.T) {
	s := newShell(t)
	s.relay("lp-9c41d7", "one\ntwo \x1b[2J\nthree\n")
	s.want("agent logs lp-9c41d7", 0, "one\ntwo ·[2J\nthree\n", "")
	s.want("agent logs lp-9c41d7 -n 1", 0, "three\n", "")
	s.want("agent logs lp-9c41d7 --lines 99", 0, "one\ntwo ·[2J\nthree\n", "")
	if s.tokens != 0 {
		t.Errorf("%d attach tokens were used", s.tokens)
	}
	code, out, _ := s.run("agent logs lp-9c41d7 --json --lines 2")
	var got struct{ Launch, State, Text string }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Text != "two \x1b[2J\nthree\n" || got.Launch != "lp-9c41d7" || got.State != string(messages.LeasePending) {
		t.Errorf("%d %v %s", code, err, out)
	}
}

func TestAgentLogs_SaysWhyThereAreNone(t *testing.T) {
	s := newShell(t)
	s.want("agent logs lp-9c41d7", 1, "", `sophia: lp-9c41d7 is pending_trusted_presence and has no terminal yet, or no more
  How it stands: sophia agent show lp-9c41d7
  (terminal_unreachable)
`)
	if code, _, errs := s.run("agent logs lp-9c41d7 --lines -1"); code != 2 || !strings.Contains(errs, "0 or more") {
		t.Errorf("%d %s", code, errs)
	}
}
