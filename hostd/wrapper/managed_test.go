package wrapper_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"

	actenvelope "sophia/actors/envelope"
	"sophia/actors/supervise"
	"sophia/hostd/broker"
	"sophia/hostd/envelope"
	"sophia/hostd/wrapper"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/programs"
)

const patience = 30 * time.Second

// daemon is what a launch's credential needs of sophiad, with the real relay,
// the real broker and the real wrapper; the lease and the MCP endpoint are small.
type daemon struct {
	t       *testing.T
	dir     string // the runtime folder
	wrapper string
	mcp     *httptest.Server
	relays  *actenvelope.Directory
	tree    *supervise.Tree
	broker  *broker.Server
	failed  chan string // launch:code

	mu      sync.Mutex
	bearer  [32]byte // SHA-256 of the one minted
	text    []byte   // its text, to search for it
	minted  int
	revoked bool
	proven  bool     // a receipt was given
	lease   string   // that receipts name
	bearers []string // Authorization as the endpoint saw it

	searchIn []string // folders besides the runtime one
	onCall   func()   // while a tool call is under way
	calls    atomic.Int64
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "sophia")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{t: t, dir: dir, wrapper: os.Getenv("WRAPPER_TEST_PROGRAM"), failed: make(chan string, 8), lease: "ls-1"}
	if d.wrapper == "" {
		d.wrapper = programs.Build(t, "sophia-wrapper")
	}
	d.mcp = httptest.NewServer(http.HandlerFunc(d.serveMCP))
	t.Cleanup(d.mcp.Close)
	d.relays = actenvelope.NewDirectory(actenvelope.Config{
		Listen:   func(launch string) (actenvelope.Socket, error) { return envelope.Listen(d.launchDir(launch)) },
		MCP:      func() string { return d.mcp.URL + "/mcp" },
		Broker:   filepath.Join(dir, "broker.sock"),
		Redeemer: d, Receipts: d,
		Fail: func(launch, code, _ string) { d.failed <- launch + ":" + code },
	})
	d.broker, err = broker.Start(broker.Config{
		Path: filepath.Join(dir, "broker.sock"), Wrapper: func() string { return fileDigest(t, d.wrapper) },
		Redeemer: d.relays, Receipts: d.relays,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.broker.Close() })
	e, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	d.tree, err = supervise.Start(e, "launches", supervise.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := d.tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("stopping left %v: %v", left, err)
		}
	})
	return d
}

func (d *daemon) launchDir(launch string) string { return filepath.Join(d.dir, "launches", launch) }

// launch starts a relay as a launch's subtree does.
func (d *daemon) launch(id string) *supervise.Ref {
	d.t.Helper()
	handle, err := secret.Random("", 32)
	if err != nil {
		d.t.Fatal(err)
	}
	digest := fileDigest(d.t, d.wrapper)
	spec := actenvelope.Spec{
		Plan:   messages.Plan{Launch: id, Lease: "ls-" + id[3:], PeerDigest: digest},
		Handle: handle,
	}
	ref, err := d.tree.Add(supervise.Spec{ID: id, Restart: supervise.Temporary, New: func() actor.Receiver { return d.relays.Relay(spec) }})
	if err != nil {
		d.t.Fatal(err)
	}
	return ref
}

func (d *daemon) Redeem(_ context.Context, launch, lease, digest string, handle *secret.Secret) (*secret.Secret, error) {
	bearer, err := secret.Random("sophia_", 32)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.minted++
	d.bearer, _ = bearer.SHA256()
	_ = bearer.Use(func(b []byte) error { d.text = append([]byte(nil), b...); return nil })
	return bearer, nil
}

func (d *daemon) Receipt(_ context.Context, bearer [32]byte, nonce string) (messages.WorkReceipt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if bearer != d.bearer || d.revoked {
		return messages.WorkReceipt{}, problem.New("invalid_or_revoked_bearer", "no")
	}
	d.proven = true
	return messages.WorkReceipt{Launch: "lp-1", Lease: d.lease, Connection: "conn-1", Nonce: nonce}, nil
}

func (d *daemon) serveMCP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	auth := r.Header.Get("Authorization")
	d.bearers = append(d.bearers, auth)
	ok := sha256.Sum256([]byte(strings.TrimPrefix(auth, "Bearer "))) == d.bearer && !d.revoked
	onCall := d.onCall
	if !d.proven {
		d.t.Error("a request of the harness came through before the proof")
	}
	d.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version string `json:"protocolVersion"`
			Name    string `json:"name"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var result any
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		result = map[string]any{"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "sophia", "version": "1"}}
	case "tools/list":
		result = map[string]any{"tools": []any{map[string]any{
			"name": "sophia.orient", "description": "Where things stand", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{}},
			"annotations": map[string]any{"readOnlyHint": true},
		}}}
	case "tools/call":
		d.calls.Add(1)
		if onCall != nil {
			onCall()
		}
		result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "oriented"}}, "structuredContent": map[string]any{"oriented": m.Params.Name}}
	default:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

func fileDigest(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// session is a running wrapper.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	diag bytes.Buffer
	n    int
}

func (d *daemon) wrap(launch string) *session {
	d.t.Helper()
	return run(d.t, d.wrapper, "--launch", launch, "--socket", filepath.Join(d.launchDir(launch), envelope.SocketName))
}

func run(t *testing.T, program string, args ...string) *session {
	t.Helper()
	s := &session{t: t, cmd: exec.Command(program, args...)}
	s.cmd.Env = []string{"HOME=/nonexistent"}
	s.cmd.Stderr = &s.diag
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewScanner(out)
	s.out.Buffer(nil, 1<<20)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.in.Close(); _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

// call sends a request and returns the line that answers it.
func (s *session) call(method, params string) string {
	s.t.Helper()
	s.n++
	if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", s.n, method, params); err != nil {
		s.t.Fatal(err)
	}
	if !s.out.Scan() {
		_ = s.cmd.Wait()
		s.t.Fatalf("no answer to %s; the wrapper says: %s", method, s.diag.String())
	}
	return s.out.Text()
}

// end waits for the wrapper's own end and returns its exit status and words.
func (s *session) end() (int, string) {
	s.t.Helper()
	for s.out.Scan() {
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.cmd.ProcessState.ExitCode(), s.diag.String()
}

const initParams = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`

func (s *session) expectOriented() {
	s.t.Helper()
	if got := s.call("initialize", initParams); !strings.Contains(got, `"protocolVersion":"2025-06-18"`) {
		s.t.Fatalf("initialize: %s", got)
	}
	if got := s.call("tools/call", `{"name":"sophia.orient","arguments":{}}`); !strings.Contains(got, `"oriented":"sophia.orient"`) {
		s.t.Fatalf("tools/call: %s", got)
	}
}

func TestEnvelope_FromRelayToWorkAndReuseAfterARestart(t *testing.T) {
	secretsBefore := secret.Live()
	d := startDaemon(t)
	d.launch("lp-1")
	first := d.wrap("lp-1")
	first.expectOriented()
	d.searchBearer()
	first.cannotDumpCore()
	first.in.Close()
	if code, diag := first.end(); code != 0 {
		t.Errorf("the wrapper ends with %d: %s", code, diag)
	}
	second := d.wrap("lp-1") // the harness restarts its MCP server
	second.expectOriented()
	third := d.wrap("lp-1") // and starts one more beside it
	third.expectOriented()
	d.mu.Lock()
	if d.minted != 1 {
		t.Errorf("%d bearers were minted; a restarted wrapper reuses the first", d.minted)
	}
	d.mu.Unlock()
	if live := secret.Live() - secretsBefore; live != 1 {
		t.Errorf("the daemon holds %d secrets while the agent works, want the deposit alone", live)
	}
	if err := d.tree.Remove(context.Background(), "lp-1"); err != nil { // the lease ends
		t.Fatal(err)
	}
	for _, s := range []*session{second, third} {
		if code, diag := s.end(); code != 0 || !strings.Contains(diag, "lease_over") {
			t.Errorf("when the lease is over the wrapper ends with %d: %s", code, diag)
		}
	}
	if live := secret.Live() - secretsBefore; live != 0 {
		t.Errorf("%d secrets are left after the lease", live)
	}
	select {
	case f := <-d.failed:
		t.Errorf("a launch failed: %s", f)
	default:
	}
}

// Root may look at any process; an ordinary user's daemon may not look at a
// wrapper that has made itself undumpable. So the whole way again as nobody.
func TestEnvelope_TheWholeWayAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other tests ran as an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	private := filepath.Join(dir, "p")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(private, 0o700), os.Chown(private, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{programs.Build(t, "sophia-wrapper"): "sophia-wrapper", "/proc/self/exe": "test"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const whole = "TestEnvelope_FromRelayToWorkAndReuseAfterARestart"
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+whole+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"WRAPPER_TEST_PROGRAM=" + filepath.Join(dir, "sophia-wrapper"), "TMPDIR=" + private}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+whole)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// watchCalls searches for the bearer, also below dir, while a tool call is
// under way.
func (d *daemon) watchCalls(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.searchIn, d.onCall = []string{dir}, d.searchBearer
}

// searchBearer looks for the bearer where the spec says that it never is.
func (d *daemon) searchBearer() {
	t := d.t
	t.Helper()
	d.mu.Lock()
	needle := d.text
	seen := strings.Join(d.bearers, " ")
	d.mu.Unlock()
	if len(needle) < 20 || !strings.Contains(seen, string(needle)) {
		t.Error("the endpoint never saw the bearer: the search would show nothing")
		return
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(procs) == 0 {
		t.Errorf("no processes: %v", err)
	}
	for _, p := range procs {
		for _, f := range []string{"cmdline", "environ"} {
			if b, err := os.ReadFile(filepath.Join(p, f)); err == nil && bytes.Contains(b, needle) {
				t.Errorf("the bearer is in %s/%s", p, f)
			}
		}
	}
	for _, dir := range append([]string{d.dir}, d.searchIn...) {
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return nil // the harness removes files as it runs
			}
			if e.Type().IsRegular() {
				if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, needle) {
					t.Errorf("the bearer is in %s", path)
				}
			}
			return nil
		})
	}
}

func (s *session) cannotDumpCore() {
	s.t.Helper()
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), "Max core file size 0 0") {
		s.t.Errorf("the wrapper could dump core: %v\n%s", err, limits)
	}
}

func TestEnvelope_RedemptionBeforeAnyServingEndsTheLaunch(t *testing.T) {
	d := startDaemon(t)
	d.launch("lp-1")
	s := d.wrap("lp-1")
	s.expectOriented()
	// Somebody who has got at the handle: it is gone from the daemon's memory,
	// so a relay of this test's own is asked with a known one.
	handle, err := secret.New([]byte("a handle that leaked"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := handle.Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Zero()
	spec := actenvelope.Spec{Plan: messages.Plan{Launch: "lp-2", Lease: "ls-2", PeerDigest: fileDigest(t, d.wrapper)}, Handle: handle}
	if _, err := d.tree.Add(supervise.Spec{ID: "lp-2", Restart: supervise.Temporary, New: func() actor.Receiver { return d.relays.Relay(spec) }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := d.relays.Redeem(ctx, "lp-2", "ls-2", os.Getpid(), again); problem.CodeOf(err) != "redemption_not_bound" {
		t.Errorf("a redemption before any serving: %v", err)
	}
	if got := <-d.failed; got != "lp-2:redemption_not_bound" {
		t.Errorf("failed: %s", got)
	}
	if s.call("tools/call", `{"name":"sophia.orient"}`); s.cmd.ProcessState != nil {
		t.Error("another launch's breach ended this one")
	}
}

// Two genuine wrappers with one handle, over the real sockets: somebody got at
// the handle and feeds it to a wrapper from a socket of his own. The second
// redemption gets nothing, ends the launch, and with it the first wrapper.
func TestEnvelope_TwoWrappersRedeemOneHandle(t *testing.T) {
	d := startDaemon(t)
	handle, err := secret.Random("", 32)
	if err != nil {
		t.Fatal(err)
	}
	leaked, err := handle.Clone()
	if err != nil {
		t.Fatal(err)
	}
	defer leaked.Zero()
	spec := actenvelope.Spec{Plan: messages.Plan{Launch: "lp-1", Lease: "ls-1", PeerDigest: fileDigest(t, d.wrapper)}, Handle: handle}
	if _, err := d.tree.Add(supervise.Spec{ID: "lp-1", Restart: supervise.Temporary, New: func() actor.Receiver { return d.relays.Relay(spec) }}); err != nil {
		t.Fatal(err)
	}
	first := d.wrap("lp-1")
	first.expectOriented()

	theirs := filepath.Join(d.dir, "theirs")
	socket, err := envelope.Listen(theirs)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := socket.Accept()
		if err != nil {
			served <- err
			return
		}
		t.Cleanup(func() { c.Close() })
		if _, _, err = c.Challenge(patience); err == nil {
			err = c.Envelope(messages.Envelope{Launch: "lp-1", Lease: "ls-1", MCP: d.mcp.URL + "/mcp", Broker: filepath.Join(d.dir, "broker.sock"), Receipt: "nonce"}, leaked)
		}
		served <- err
	}()
	second := run(t, d.wrapper, "--launch", "lp-1", "--socket", filepath.Join(theirs, envelope.SocketName))
	if code, diag := second.end(); code != 3 || !strings.Contains(diag, "handle_already_redeemed") {
		t.Errorf("the second wrapper ends with %d: %s", code, diag)
	}
	socket.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got := <-d.failed; got != "lp-1:handle_already_redeemed" {
		t.Errorf("failed: %s", got)
	}
	if code, diag := first.end(); code != 3 || !strings.Contains(diag, "handle_already_redeemed") {
		t.Errorf("the first wrapper ends with %d: %s", code, diag)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.minted != 1 {
		t.Errorf("%d bearers were minted for one handle", d.minted)
	}
}

func TestEnvelope_OtherProgramsAndOtherLaunchesGetNothing(t *testing.T) {
	d := startDaemon(t)
	d.launch("lp-1")
	socket := filepath.Join(d.launchDir("lp-1"), envelope.SocketName)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// This test binary is not the wrapper.
	if _, err := wrapper.Fetch(ctx, socket, "lp-1", func() error { return nil }); problem.CodeOf(err) != "peer_wrong_executable" {
		t.Errorf("another program: %v", err)
	}
	if _, err := broker.Dial(ctx, filepath.Join(d.dir, "broker.sock")); problem.CodeOf(err) != "peer_wrong_executable" {
		t.Errorf("another program at the broker: %v", err)
	}
	// A copy with one more byte is another program, too.
	changed := filepath.Join(d.dir, "wrapper")
	b, err := os.ReadFile(d.wrapper)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, append(b, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, diag := run(t, changed, "--launch", "lp-1", "--socket", socket).end(); code != 3 || !strings.Contains(diag, "peer_wrong_executable") {
		t.Errorf("a changed wrapper ends with %d: %s", code, diag)
	}
	// None of them has used the envelope up.
	s := d.wrap("lp-1")
	s.expectOriented()
}

func TestEnvelope_WrapperKilledWhileItAloneHoldsTheCredential(t *testing.T) {
	d := startDaemon(t)
	d.launch("lp-1")
	d.mu.Lock() // Redeem blocks here: the wrapper waits for its bearer
	s := d.wrap("lp-1")
	for { // until the envelope was served, the handle is with the wrapper
		if n := d.relays.Phase(context.Background(), "lp-1"); n == "redeeming" {
			break
		}
		if s.cmd.ProcessState != nil {
			t.Fatal(s.diag.String())
		}
	}
	_ = s.cmd.Process.Kill()
	if got := <-d.failed; got != "lp-1:wrapper_lost" {
		t.Errorf("failed: %s", got)
	}
	d.mu.Unlock()
	if code, diag := d.wrap("lp-1").end(); code == 0 {
		t.Errorf("a second wrapper after the credential was lost: %d %s", code, diag)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.minted > 1 {
		t.Errorf("minted %d times", d.minted)
	}
}
