package transport

import (
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sophia/messages"
	"sophia/messages/problem"
)

// What a client without a valid bearer is told (spec mcp-surface, Boundaries).
const (
	bearerText   = "Authentication required. Provide a valid Bearer token."
	codeBearer   = "invalid_or_revoked_bearer"
	codeNotAsked = "authority_unavailable"
)

var errBearer = errors.New("transport: no valid bearer")

// hostAllowed stops DNS rebinding: a page of a foreign site that reaches this
// port through a name of its own has that name in Host, or its own in Origin.
func (t *Transport) hostAllowed(r *http.Request) bool {
	if !t.named(r.Host) {
		return false
	}
	origins := r.Header.Values("Origin")
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !t.named(u.Host) {
			return false
		}
	}
	return true
}

func (t *Transport) named(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	switch host {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return slices.ContainsFunc(t.c.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// authority looks the bearer up. Only its digest goes further.
func (t *Transport) authority(r *http.Request) (messages.Authority, error) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return messages.Authority{}, errBearer
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return messages.Authority{}, errBearer
	}
	a, ok, err := t.c.Authorities.ByBearer(r.Context(), sha256.Sum256([]byte(token)))
	if err != nil {
		return messages.Authority{}, err
	}
	if !ok {
		return messages.Authority{}, errBearer
	}
	return a, nil
}

func (t *Transport) refuseBearer(w http.ResponseWriter, rest bool, err error) {
	if !errors.Is(err, errBearer) {
		t.c.Log.Error("a bearer could not be looked up", "error", err)
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, codeNotAsked, "the connection could not be looked up")
		return
	}
	// RFC 9110, 11.6.1 wants the header; without resource_metadata it starts no OAuth.
	w.Header().Set("WWW-Authenticate", `Bearer realm="sophia"`)
	if rest {
		writeJSON(w, http.StatusUnauthorized, problem.New(codeBearer, bearerText).
			WithHint("Check the bearer first: it may be stale or revoked. The owner mints one with: sophia connection mint."))
		return
	}
	writeRPCError(w, http.StatusUnauthorized, nil, -32001, bearerText, nil)
}
