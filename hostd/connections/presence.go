package connections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sophia/actors/approvals"
	"sophia/messages"
	"sophia/messages/problem"
)

// needsPresence says whether minting takes the owner and not only the owner's
// key, which is a file that any program of the owner can read: for what writes
// without asking, and for what may propose writes to everything. Who only
// reads gets nothing that the key alone would not give.
func needsPresence(a messages.Authority) bool {
	return a.Profile == messages.Full || a.Profile != messages.Observer && slices.Contains(a.Scope, "*")
}

// approved asks the owner for a connection with this authority that lives for
// ttl seconds, and returns the approval's id.
func (s *Service) approved(ctx context.Context, a messages.Authority, ttl int) (string, error) {
	bound, err := json.Marshal(struct {
		messages.Authority
		TTL int `json:"ttl_seconds"`
	}{a, ttl})
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(bound)
	v, err := s.gate.Request(ctx, messages.ApprovalRequest{
		Kind: messages.ApproveConnection, Connection: ownerActor.Connection, Requester: "owner (command line)",
		Title: "Connect " + a.Name, Details: details(a, ttl), Digest: hex.EncodeToString(digest[:]),
	})
	if err == nil {
		err = approvals.Refusal(v)
	}
	if err != nil {
		return "", err
	}
	if v.Digest != hex.EncodeToString(digest[:]) {
		return "", problem.New("approval_mismatch", "the approval %s is for another connection", v.ID).WithHint("Mint it again and have it approved anew.")
	}
	return v.ID, nil
}

func details(a messages.Authority, ttl int) [][2]string {
	writes := map[messages.Profile]string{
		messages.Observer: "it can't write", messages.Assistant: "each write waits for you",
		messages.Full: "writes without asking, but for elevated tools",
	}
	scope, lasts := strings.Join(a.Scope, ", "), "until revoked"
	if slices.Contains(a.Scope, "*") {
		scope += " (everything)"
	}
	if ttl > 0 {
		lasts = (time.Duration(ttl) * time.Second).String()
	}
	return [][2]string{
		{"name", a.Name},
		{"profile", fmt.Sprintf("%s: %s", a.Profile, writes[a.Profile])},
		{"tool surface", string(a.Surface)},
		{"scope", scope},
		{"lasts", lasts},
	}
}
