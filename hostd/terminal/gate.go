package terminal

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"sync"

	"sophia/messages/problem"
)

// MaxWrong is how many wrong tokens end the socket.
const MaxWrong = 3

// maxToken bounds what is hashed for a try, in bytes. A token is 32 random
// bytes, written in 43 characters.
const maxToken = 128

// Gate decides who may attach. It outlives the actor that serves the socket:
// a token that was used stays used when the actor is restarted.
type Gate struct {
	mu      sync.Mutex
	digest  [32]byte
	used    bool
	wrong   int
	present bool
}

// NewGate returns a gate for the token with this SHA-256, in hex. Nobody but
// the owner has the token itself.
func NewGate(tokenSHA256 string) (*Gate, error) {
	g := &Gate{}
	b, err := hex.DecodeString(tokenSHA256)
	if err != nil || len(b) != len(g.digest) {
		return nil, problem.New("manifest_malformed", "The attach token's digest is not a SHA-256 in hex")
	}
	copy(g.digest[:], b)
	return g, nil
}

// Try consumes the token, at most once. Errors: wrong_token, viewer_present
// (right, but somebody is attached with it), token_consumed.
// After MaxWrong wrong tries every further one is wrong, and Closed is true.
func (g *Gate) Try(token []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	right := 0
	if len(token) <= maxToken {
		sum := sha256.Sum256(token)
		right = subtle.ConstantTimeCompare(sum[:], g.digest[:])
	}
	switch {
	case g.wrong >= MaxWrong || right != 1:
		g.wrong++
		return problem.New("wrong_token", "This is not the attach token of the launch").
			WithHint("The token is shown once, when the agent is started. After %d wrong ones the terminal is closed for good.", MaxWrong)
	case g.present:
		return problem.New("viewer_present", "Another terminal is attached to this agent").
			WithHint("One terminal at a time can be attached.")
	case g.used:
		return problem.New("token_consumed", "The attach token of this launch was already used").
			WithHint("Each launch can be attached to once. The agent keeps running; sophia agent logs shows its output.")
	}
	g.used, g.present = true, true
	return nil
}

// Left says that the viewer is gone.
func (g *Gate) Left() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.present = false
}

// Used is true once somebody has attached.
func (g *Gate) Used() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// Present is true while somebody is attached.
func (g *Gate) Present() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.present
}

// Closed is true after too many wrong tokens: the socket must go.
func (g *Gate) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wrong >= MaxWrong
}
