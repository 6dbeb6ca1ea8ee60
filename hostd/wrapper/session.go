package wrapper

import (
	"encoding/json"
	"net/http"
	"sync"
)

// session is the client's session with the daemon in the eras that have one.
type session struct {
	mu      sync.Mutex
	first   message // its initialize, to be repeated when the daemon forgot the session
	id      string
	version string // negotiated
	lives   int    // how often it was made

	renewing sync.Mutex // one renewal at a time
}

func (s *session) headers() (h http.Header, lives int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h = http.Header{}
	if s.id != "" {
		h.Set(headerSession, s.id)
	}
	if s.version != "" {
		h.Set(headerVersion, s.version)
	}
	return h, s.lives
}

// began notes what the daemon answered to initialize.
func (s *session) began(m message, id string, answer []byte) {
	var v struct {
		Result struct {
			Version string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &v) != nil || v.Result.Version == "" {
		return // refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.id, s.version = m, id, v.Result.Version
	s.lives++
}

func (s *session) initialize() (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.id != ""
}
