package ownerapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

// trayProtocol is the Upgrade token. After the upgrade and the challenge both
// sides send JSON values, one a line.
const trayProtocol = "sophia-tray/1"

// Bounds of a tray's connection.
const (
	maxTrayLine   = 64 << 10         // what a tray may send at once, in bytes
	trayWriteWait = 10 * time.Second // a tray that reads nothing for so long is dropped
	proofWait     = 10 * time.Second
)

// trayLine is one line in either direction. From the daemon: event, ready (what
// was open has been told), result (of the decide with the same seq). From the
// tray: decide.
type trayLine struct {
	Type    string              `json:"type"`
	Event   *messages.TrayEvent `json:"event,omitempty"`
	Seq     uint64              `json:"seq,omitempty"`
	ID      string              `json:"id,omitempty"`
	Digest  string              `json:"digest,omitempty"`
	Outcome string              `json:"outcome,omitempty"`
	Reason  string              `json:"reason,omitempty"`
	Error   *problem.Error      `json:"error,omitempty"`
}

// serveTray upgrades a connection to a tray's.
func (s *Server) serveTray(w http.ResponseWriter, r *http.Request, gate Approvals) {
	conn, ok := unixConn(r.Context())
	if !ok || s.Presence == nil {
		s.fail(w, r, needsPresence())
		return
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), trayProtocol) {
		s.fail(w, r, problem.New("malformed_request", "a tray's connection must ask for the upgrade to %s", trayProtocol))
		return
	}
	peer, err := s.Presence.Check(conn)
	if err != nil {
		refusal := needsPresence()
		refusal.Cause = err
		if why, ok := errors.AsType[*problem.Error](err); ok {
			refusal.Message = "only the packaged tray, at a terminal of yours, may answer: " + why.Message
			if why.Hint != "" {
				refusal.Hint = why.Hint
			}
		}
		s.fail(w, r, refusal)
		return
	}
	defer peer.Close()
	if !s.adopt(conn) {
		s.fail(w, r, problem.New("daemon_stopping", "the daemon is stopping").WithHint("The tray connects again by itself."))
		return
	}
	defer s.release(conn)

	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.fail(w, r, problem.Wrap(err, "internal", "the connection could not be taken over"))
		return
	}
	defer conn.Close()
	if buffered.Reader.Buffered() > 0 {
		return // bytes from before the proof are nobody's
	}
	// The request's context ends with the hijack only when the server does; the
	// tray's own ends with the connection.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	if err := proveTray(conn, peer); err != nil {
		s.Log.Warn("a tray was refused", "pid", peer.PID(), "error", err)
		return
	}
	name := fmt.Sprintf("%s (pid %d)", plainName(r.URL.Query().Get("name")), peer.PID())
	if err := s.runTray(ctx, cancel, conn, name, gate); err != nil {
		s.Log.Info("a tray's connection ended", "tray", name, "why", err)
	}
}

func proveTray(conn *net.UnixConn, peer Peer) error {
	conn.SetDeadline(time.Now().Add(proofWait))
	defer conn.SetDeadline(time.Time{})
	_, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+trayProtocol+"\r\n\r\n")
	if err != nil {
		return err
	}
	return peer.Challenge(conn)
}

// adopt registers a connection that http.Server no longer knows.
func (s *Server) adopt(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.trays[conn] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) release(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.trays, conn)
	s.wg.Done()
}

// runTray tells and listens until one side ends.
func (s *Server) runTray(ctx context.Context, cancel context.CancelFunc, conn net.Conn, name string, gate Approvals) error {
	feed, err := s.Services.Trays.Subscribe(ctx, name)
	if err != nil {
		return err
	}
	defer feed.Close()
	out := &lineWriter{conn: conn}

	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel() // a tray that has gone needs no more telling
		listenTray(ctx, conn, out, name, gate)
	})
	defer listening.Wait()
	defer conn.Close()

	for ready := false; ; {
		events, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		for i := range events {
			if err := out.write(trayLine{Type: "event", Event: &events[i]}); err != nil {
				return err
			}
		}
		if !ready { // the first Next is what was open
			ready = true
			if err := out.write(trayLine{Type: "ready"}); err != nil {
				return err
			}
		}
	}
}

func listenTray(ctx context.Context, conn net.Conn, out *lineWriter, name string, gate Approvals) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 4<<10), maxTrayLine)
	for lines.Scan() {
		line, err := parseTrayLine(lines.Bytes())
		if err != nil {
			return
		}
		answer := trayLine{Type: "result", Seq: line.Seq}
		if err := gate.Decide(ctx, line.ID, line.Digest, line.Outcome, name, line.Reason); err != nil {
			answer.Error = problem.Of(err)
		}
		if out.write(answer) != nil {
			return
		}
	}
}

// parseTrayLine reads what a tray sends; anything but a well-formed decide ends
// the connection.
func parseTrayLine(text []byte) (trayLine, error) {
	var line trayLine
	if err := json.Unmarshal(text, &line); err != nil {
		return line, err
	}
	if line.Type != "decide" || line.Event != nil || line.Error != nil {
		return line, fmt.Errorf("a tray sends no %q", line.Type)
	}
	if line.Outcome != messages.OutcomeApproved && line.Outcome != messages.OutcomeDenied {
		return line, fmt.Errorf("a tray can't answer %q", line.Outcome)
	}
	return line, nil
}

// lineWriter serializes the two writers of a connection.
type lineWriter struct {
	mu   sync.Mutex
	conn net.Conn
}

func (w *lineWriter) write(line trayLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn.SetWriteDeadline(time.Now().Add(trayWriteWait))
	_, err = w.conn.Write(append(text, '\n'))
	return err
}

// plainName makes what a tray calls itself fit for a log and a table.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name)
	if len(name) > 60 {
		name = strings.ToValidUTF8(name[:60], "")
	}
	if name == "" {
		return "tray"
	}
	return name
}
