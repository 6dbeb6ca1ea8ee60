package ownerapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sophia/hostd/ownerkey"
	"sophia/messages"
	"sophia/messages/problem"
)

func TestOwnerAPI_EveryCallComesBack(t *testing.T) {
	s := serve(t, nil)
	ctx := t.Context()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	status, err := s.client.Status(ctx)
	ok("status", err)
	if status.PID != 42 {
		t.Errorf("status: %+v", status)
	}
	added, err := s.client.AddWorkspace(ctx, AddWorkspace{Path: "/src/app"})
	ok("workspace add", err)
	if added.ID != "ws-1f2ce8" || added.Documents != 3 {
		t.Errorf("added: %+v", added)
	}
	profiles, err := s.client.Profiles(ctx, added.ID)
	ok("profiles", err)
	if len(profiles.Items) != 1 || profiles.Total != 1 || profiles.Items[0].Name != "Codex reviewer" {
		t.Errorf("profiles: %+v", profiles)
	}
	page, err := s.client.Journal(ctx, JournalQuery{Table: "facts", Limit: 5})
	ok("journal", err)
	if page.Items[0].Table != "facts" {
		t.Errorf("the query did not arrive: %+v", page)
	}
	reverted, err := s.client.Revert(ctx, 7, "a mistake")
	ok("revert", err)
	if reverted.Reverts != 7 || reverted.Reason != "a mistake" {
		t.Errorf("reverted: %+v", reverted)
	}
	result, err := s.client.CallTool(ctx, "sophia.orient", json.RawMessage(`{"goal":"x"}`))
	ok("tool call", err)
	if string(result) != `{"tool":"sophia.orient","got":{"goal":"x"}}` {
		t.Errorf("result: %s", result)
	}
	harness, err := s.client.Adopt(ctx, AdoptRequest{Harness: "codex"})
	ok("adopt", err)
	if !harness.Adopted {
		t.Errorf("harness: %+v", harness)
	}
	launches, err := s.client.Launches(ctx)
	ok("launches", err)
	if launches.Items == nil {
		t.Error("an empty list is null")
	}
}

func TestOwnerAPI_LaunchIsWaitedForAndAttachedOnce(t *testing.T) {
	s := serve(t, nil)
	lease, err := s.client.Propose(t.Context(), "ws-1f2ce8", StartRequest{Seat: "Reviewer_1"})
	if err != nil {
		t.Fatal(err)
	}
	go (*fakeLaunches)(s.daemon).set(lease.Launch, messages.LeaseApproved)
	lease, err = s.client.WaitLaunch(t.Context(), lease.Launch, messages.LeasePending)
	if err != nil || lease.State != messages.LeaseApproved {
		t.Fatalf("%+v, %v", lease, err)
	}
	socket, token, err := s.client.Attach(t.Context(), lease.Launch)
	if err != nil {
		t.Fatal(err)
	}
	defer token.Zero()
	want := make([]byte, TokenSize)
	for i := range want {
		want[i] = byte(i)
	}
	if socket != "/run/t.sock" || !token.Equal(want) {
		t.Errorf("socket %q, token differs: %v", socket, !token.Equal(want))
	}
	if _, _, err := s.client.Attach(t.Context(), lease.Launch); problem.CodeOf(err) != "token_consumed" {
		t.Errorf("a second attach: %v", err)
	}
	if _, err := s.client.Launch(t.Context(), "lp-none"); problem.CodeOf(err) != "launch_not_found" {
		t.Errorf("an unknown launch: %v", err)
	}
}

func TestOwnerAPI_BearerGoesToAPrivateFileOnly(t *testing.T) {
	s := serve(t, nil)
	minted, err := s.client.Mint(t.Context(), MintRequest{Name: "Claude", Profile: "assistant", Surface: "core", Scope: []string{"acme"}, ToolNames: "dotted"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(minted.BearerFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, s.bearer) {
		t.Errorf("the file holds %q", text)
	}
	info, _ := os.Stat(minted.BearerFile)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	answer, _ := json.Marshal(minted)
	if bytes.Contains(answer, s.bearer) {
		t.Error("the bearer travelled in the answer")
	}
	if _, err := s.client.Revoke(t.Context(), minted.Connection); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(minted.BearerFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the bearer file of a revoked connection: %v", err)
	}
}

// routes are all paths, and one that is none.
var routes = []string{
	"GET /status", "GET /connections", "POST /connections", "DELETE /connections/conn-0a1b2c",
	"GET /workspaces", "POST /workspaces", "GET /workspaces/ws-1/profiles", "POST /workspaces/ws-1/launches",
	"GET /launches", "GET /launches/lp-1", "POST /launches/lp-1/stop", "POST /launches/lp-1/attach",
	"GET /approvals", "POST /approvals/ap-1/verdict", "GET /tray",
	"GET /journal", "GET /journal/1", "POST /journal/1/revert",
	"GET /tools", "GET /tools/sophia.orient", "POST /tools/sophia.orient",
	"GET /harnesses", "POST /harnesses", "GET /nothing",
}

func TestOwnerAPI_NoUnauthenticatedPath(t *testing.T) {
	s := serve(t, nil)
	stranger, err := ownerkey.LoadOrCreate(filepath.Join(s.dir, "other.key"))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	other, err := NewClient(s.socket, stranger)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		w := httptest.NewRecorder()
		s.server.ServeHTTP(w, httptest.NewRequest(method, Root+path, strings.NewReader("{}")))
		if w.Code != 401 || !strings.Contains(w.Body.String(), "owner_signature_required") {
			t.Errorf("%s unsigned: %d %s", route, w.Code, w.Body)
		}
		_, err := other.do(t.Context(), method, path, map[string]any{})
		if problem.CodeOf(err) != "owner_signature_invalid" {
			t.Errorf("%s with another key: %v", route, err)
		}
	}
}

// signed makes a request that the server would take.
func (s *served) signed(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	s.client.instance.Store(&s.server.verifier.instance)
	var content []byte
	if body != "" {
		content = []byte(body)
	}
	r, err := s.client.newRequest(t.Context(), method, path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.RequestURI()
	return r
}

func (s *served) answer(r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	var p problem.Error
	json.Unmarshal(w.Body.Bytes(), &p)
	return w.Code, p.Code
}

func TestOwnerAPI_TamperedRequestsAreRefused(t *testing.T) {
	s := serve(t, nil)
	if status, code := s.answer(s.signed(t, "POST", "/workspaces", `{"path":"/a"}`)); status != 201 {
		t.Fatalf("the untouched request: %d %s", status, code)
	}
	cases := map[string]struct {
		change func(r *http.Request)
		code   string
	}{
		"method": {func(r *http.Request) { r.Method = "PUT" }, "owner_signature_invalid"},
		"path":   {func(r *http.Request) { r.URL.Path = Root + "/harnesses" }, "owner_signature_invalid"},
		"query":  {func(r *http.Request) { r.URL.RawQuery = "x=1" }, "owner_signature_invalid"},
		"body": {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"path":"/b"}`)) },
			"owner_signature_invalid"},
		"no digest":      {func(r *http.Request) { r.Header.Del("Content-Digest") }, "owner_signature_invalid"},
		"weak digest":    {func(r *http.Request) { r.Header.Set("Content-Digest", "md5=:AAAA:") }, "owner_signature_invalid"},
		"instance":       {func(r *http.Request) { r.Header.Set(InstanceHeader, "other") }, "owner_signature_invalid"},
		"no signature":   {func(r *http.Request) { r.Header.Del("Signature") }, "owner_signature_required"},
		"no input":       {func(r *http.Request) { r.Header.Del("Signature-Input") }, "owner_signature_required"},
		"escaped path":   {func(r *http.Request) { r.URL.RawPath = "/api%2Fowner/workspaces" }, "path_not_canonical"},
		"second label":   {func(r *http.Request) { rename(r, "sig1", "sig2") }, "owner_signature_invalid"},
		"fewer fields":   {func(r *http.Request) { rename(r, ` "content-digest"`, "") }, "owner_signature_invalid"},
		"later created":  {func(r *http.Request) { rename(r, "created=", "created=1") }, "owner_signature_invalid"},
		"created a word": {func(r *http.Request) { rename(r, "created=", `created="x";x=`) }, "owner_signature_invalid"},
		"nonce a number": {func(r *http.Request) { rename(r, "nonce=", `nonce=1;x=`) }, "owner_signature_invalid"},
		"keyid a number": {func(r *http.Request) { rename(r, "keyid=", `keyid=1;x=`) }, "owner_signature_invalid"},
		"from a browser": {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8765") }, "browser_refused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := s.signed(t, "POST", "/workspaces", `{"path":"/a"}`)
			c.change(r)
			if _, code := s.answer(r); code != c.code {
				t.Errorf("code %q, want %q", code, c.code)
			}
		})
	}
	if len(s.workspaces) != 1 {
		t.Errorf("something got through: %+v", s.workspaces)
	}
}

func rename(r *http.Request, from, to string) {
	for _, h := range []string{"Signature", "Signature-Input"} {
		r.Header.Set(h, strings.ReplaceAll(r.Header.Get(h), from, to))
	}
}

func TestOwnerAPI_ReplayIsRefused(t *testing.T) {
	s := serve(t, nil)
	var wire bytes.Buffer
	if err := s.signed(t, "POST", "/workspaces", `{"path":"/a"}`).Write(&wire); err != nil {
		t.Fatal(err)
	}
	if got := s.raw(t, wire.Bytes()); !strings.HasPrefix(got, "HTTP/1.1 201") {
		t.Fatal(got)
	}
	if got := s.raw(t, wire.Bytes()); !strings.Contains(got, "owner_request_replayed") {
		t.Errorf("the same bytes again: %s", got)
	}
	if len(s.workspaces) != 1 {
		t.Errorf("done twice: %+v", s.workspaces)
	}
}

func TestOwnerAPI_ReplayToTheNextRunIsRefused(t *testing.T) {
	s := serve(t, nil)
	var wire bytes.Buffer
	if err := s.signed(t, "POST", "/workspaces", `{"path":"/a"}`).Write(&wire); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	s.start(t, nil)
	if got := s.raw(t, wire.Bytes()); !strings.Contains(got, "owner_instance_changed") {
		t.Errorf("bytes for the earlier run: %s", got)
	}
	// A living client just goes on.
	if _, err := s.client.AddWorkspace(t.Context(), AddWorkspace{Path: "/b"}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if len(s.workspaces) != 1 || s.workspaces[0].Path != "/b" {
		t.Errorf("workspaces: %+v", s.workspaces)
	}
}

func TestOwnerAPI_SignatureAges(t *testing.T) {
	s := serve(t, nil)
	synctest.Test(t, func(t *testing.T) {
		young, old := s.signed(t, "GET", "/status", ""), s.signed(t, "GET", "/status", "")
		time.Sleep(signatureLife)
		if status, code := s.answer(young); status != 200 {
			t.Errorf("after a minute: %d %s", status, code)
		}
		time.Sleep(2 * time.Second)
		if _, code := s.answer(old); code != "owner_signature_invalid" {
			t.Errorf("after more than a minute: %q", code)
		}
		// Forgotten nonces belong to signatures that are too old by themselves.
		time.Sleep(time.Hour)
		if status, code := s.answer(s.signed(t, "GET", "/status", "")); status != 200 {
			t.Errorf("an hour later: %d %s", status, code)
		}
		if len(s.server.verifier.nonces) != 1 {
			t.Errorf("%d nonces are kept", len(s.server.verifier.nonces))
		}
	})
}

func TestOwnerAPI_BodyIsBounded(t *testing.T) {
	s := serve(t, nil)
	if status, code := s.answer(s.signed(t, "POST", "/workspaces", `{"path":"`+strings.Repeat("a", maxBody)+`"}`)); status != 413 || code != "body_too_large" {
		t.Errorf("%d %s", status, code)
	}
	if status, code := s.answer(s.signed(t, "POST", "/workspaces", `{"path":"/a","colour":"red"}`)); status != 400 || code != "malformed_request" {
		t.Errorf("an unknown field: %d %s", status, code)
	}
	if status, code := s.answer(s.signed(t, "POST", "/workspaces", `{"path":"/a"} {}`)); status != 400 || code != "malformed_request" {
		t.Errorf("two values: %d %s", status, code)
	}
}

func TestOwnerAPI_NobodyThere(t *testing.T) {
	s := serve(t, nil)
	gone, err := NewClient(filepath.Join(s.dir, "none.sock"), s.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.Status(t.Context()); problem.CodeOf(err) != "daemon_unreachable" {
		t.Errorf("no socket: %v", err)
	}
	lease, err := s.client.Propose(t.Context(), "ws-1", StartRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.client.WaitLaunch(ctx, lease.Launch, lease.State); problem.CodeOf(err) != "timed_out" {
		t.Errorf("nothing happens: %v", err)
	}
	if _, err := Listen(s.socket); problem.CodeOf(err) != "daemon_running" {
		t.Errorf("a second daemon: %v", err)
	}
}

func FuzzOwnerAPI_SignatureHeaders(f *testing.F) {
	f.Add(`sig1=("@method" "@path" "@query" "content-digest" "sophia-instance");created=1;nonce="AAAAAAAAAAAAAAAAAAAA";keyid="x";tag="sophia-owner"`, "sig1=:AAAA:", "sha-256=:AAAA:")
	f.Add(`sig1=();created="x"`, "sig1=1", "")
	f.Add(`sig1=1`, `sig1=("a")`, "sha-256=1")
	key, err := ownerkey.LoadOrCreate(filepath.Join(f.TempDir(), "k"))
	if err != nil {
		f.Fatal(err)
	}
	d := newDaemon()
	server, err := New(Config{Owner: publicOf(key), Services: d.services()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, input, signature, digest string) {
		r := httptest.NewRequest("GET", Root+"/status", nil)
		r.Header.Set("Signature-Input", input)
		r.Header.Set("Signature", signature)
		if digest != "" {
			r.Header.Set("Content-Digest", digest)
		}
		r.Header.Set(InstanceHeader, server.verifier.instance)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Fatalf("%d for a request that nobody signed", w.Code)
		}
	})
}
