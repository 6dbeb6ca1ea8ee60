package ownertray

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

// model is what the tray knows. It has no clock and no terminal.
type model struct {
	requests  []messages.ApprovalRequest // oldest first
	selected  string                     // ID of the one that is shown in full
	input     []rune
	scroll    int
	sending   string // ID of the request whose answer is on its way
	sent      string // and of the last one that was answered here
	notice    string
	bad       bool // the notice is a refusal
	connected bool
	quit      bool
}

// decision is an answer to send.
type decision struct {
	request messages.ApprovalRequest
	outcome string
	reason  string
}

// connection: the connection came (with a new start of events) or went.
func (m *model) connection(up bool) {
	m.connected = up
	if up {
		m.requests = nil
	}
}

// event: something was asked or answered.
func (m *model) event(e messages.TrayEvent) {
	switch {
	case e.Kind == messages.TrayAsked && e.Request != nil:
		if i := m.index(e.Request.ID); i >= 0 {
			m.requests[i] = *e.Request
			break
		}
		m.requests = append(m.requests, *e.Request)
		slices.SortFunc(m.requests, func(a, b messages.ApprovalRequest) int {
			return cmp.Or(a.Requested.Compare(b.Requested), cmp.Compare(a.ID, b.ID))
		})
	case e.Kind == messages.TrayAnswered && e.Verdict != nil:
		if i := m.index(e.Verdict.ID); i >= 0 {
			// Who answered here sees the result of that; others are told.
			if m.sending != e.Verdict.ID && m.sent != e.Verdict.ID {
				m.say(false, "%s", verdictText(m.requests[i], *e.Verdict))
			}
			m.requests = slices.Delete(m.requests, i, i+1)
		}
	}
	m.settle()
}

func verdictText(r messages.ApprovalRequest, v messages.ApprovalVerdict) string {
	text := fmt.Sprintf("%s (%s): %s", r.ID, r.Title, strings.ReplaceAll(v.Outcome, "_", " "))
	if v.By != "" {
		text += " by " + v.By
	}
	return text
}

// settle keeps the selection on something that is there. The input stays: a
// code typed for a request that has gone fits no other.
func (m *model) settle() {
	if m.index(m.selected) >= 0 {
		return
	}
	m.selected, m.scroll = "", 0
	if len(m.requests) > 0 {
		m.selected = m.requests[0].ID
	}
}

func (m *model) index(id string) int {
	return slices.IndexFunc(m.requests, func(r messages.ApprovalRequest) bool { return r.ID == id })
}

func (m *model) current() (messages.ApprovalRequest, bool) {
	if i := m.index(m.selected); i >= 0 {
		return m.requests[i], true
	}
	return messages.ApprovalRequest{}, false
}

func (m *model) say(bad bool, format string, args ...any) {
	m.bad, m.notice = bad, fmt.Sprintf(format, args...)
}

// key: the owner pressed something. A decision is to be sent.
func (m *model) key(k key) *decision {
	switch k.kind {
	case keyRune:
		if len(m.input) < 500 {
			m.input = append(m.input, k.r)
		}
	case keyBackspace:
		if n := len(m.input); n > 0 {
			m.input = m.input[:n-1]
		}
	case keyClear:
		m.input = nil
	case keyUp:
		m.scroll = max(0, m.scroll-1)
	case keyDown:
		m.scroll++
	case keyPageUp:
		m.scroll = max(0, m.scroll-10)
	case keyPageDown:
		m.scroll += 10
	case keyQuit:
		m.quit = true
	case keyEnter:
		line := strings.TrimSpace(string(m.input))
		m.input, m.notice = nil, ""
		return m.line(line)
	}
	return nil
}

// line is a whole line that the owner entered.
func (m *model) line(line string) *decision {
	word, rest, _ := strings.Cut(line, " ")
	switch strings.ToLower(word) {
	case "":
		return nil
	case "q", "quit":
		m.quit = true
		return nil
	case "n", "next", "p", "prev":
		step := 1
		if strings.HasPrefix(strings.ToLower(word), "p") {
			step = -1
		}
		if n := len(m.requests); n > 0 {
			i := (m.index(m.selected) + step + n) % n
			m.selected, m.scroll = m.requests[i].ID, 0
		}
		return nil
	}
	r, any := m.current()
	switch {
	case !any:
		m.say(true, "Nothing waits for an answer.")
	case !m.connected:
		m.say(true, "Not connected to the daemon; the answer was not sent.")
	case m.sending != "":
		m.say(true, "The last answer is still on its way.")
	case strings.EqualFold(word, "d"), strings.EqualFold(word, "deny"):
		m.sending = r.ID
		return &decision{r, messages.OutcomeDenied, strings.TrimSpace(rest)}
	case strings.EqualFold(line, r.Code):
		m.sending = r.ID
		return &decision{r, messages.OutcomeApproved, ""}
	default:
		m.say(true, "%q is not the code of %s. Nothing was answered.", line, r.ID)
		for _, other := range m.requests {
			if other.ID != r.ID && strings.EqualFold(line, other.Code) {
				m.say(true, "That is the code of %s, which is not the one shown. Go to it with n.", other.ID)
			}
		}
	}
	return nil
}

// answered: what became of a decision.
func (m *model) answered(d decision, err error) {
	m.sending = ""
	if err == nil {
		m.sent = d.request.ID
	}
	switch {
	case err == nil && d.outcome == messages.OutcomeApproved:
		m.say(false, "Approved: %s (%s).", d.request.ID, d.request.Title)
	case err == nil:
		m.say(false, "Denied: %s (%s).", d.request.ID, d.request.Title)
	default:
		m.say(true, "%s", problem.Of(err).Message)
	}
}

// ticks says whether the view changes by itself: time runs while
// something waits.
func (m *model) ticks() bool { return len(m.requests) > 0 }

func left(r messages.ApprovalRequest, now time.Time) string {
	d := r.Expires.Sub(now).Round(time.Second)
	if d <= 0 {
		return "expired"
	}
	return fmt.Sprintf("%d:%02d left", int(d.Minutes()), int(d.Seconds())%60)
}
