package wrapper_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What the harness says at once is read when the daemon has attested the
// credential, and not a moment earlier.
func TestEnvelope_ServesNothingBeforeTheProof(t *testing.T) {
	d := startDaemon(t)
	d.launch("lp-1")
	d.mu.Lock() // Redeem blocks here
	s := d.wrap("lp-1")
	fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sophia.orient"}}`+"\n", initParams)
	for d.relays.Phase(context.Background(), "lp-1") != "redeeming" {
		if s.cmd.ProcessState != nil {
			t.Fatal(s.diag.String())
		}
	}
	if len(d.bearers) != 0 {
		t.Errorf("before the bearer was there the endpoint saw %d requests", len(d.bearers))
	}
	d.mu.Unlock() // serveMCP fails the test when a request comes before the receipt
	for _, want := range []string{`"id":1,`, `"id":2,`} {
		if !s.out.Scan() || !strings.Contains(s.out.Text(), want) {
			t.Fatalf("%q, want the answer to %s; the wrapper says: %s", s.out.Text(), want, s.diag.String())
		}
	}
}

// A receipt for another lease than the plan's proves nothing: the harness gets
// no tool, and the launch fails closed.
func TestEnvelope_ReceiptOfAnotherLeaseServesNothing(t *testing.T) {
	d := startDaemon(t)
	d.lease = "ls-another"
	d.launch("lp-1")
	s := d.wrap("lp-1")
	fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}`+"\n", initParams)
	if s.out.Scan() {
		t.Errorf("the harness was answered: %s", s.out.Text())
	}
	if code, diag := s.end(); code != 3 {
		t.Errorf("the wrapper ends with %d: %s", code, diag)
	}
	if got := <-d.failed; !strings.HasPrefix(got, "lp-1:") {
		t.Errorf("failed: %s", got)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.bearers) != 0 {
		t.Errorf("the endpoint saw %d requests", len(d.bearers))
	}
}

// A daemon that hangs for seconds is waited for: nothing is sent twice, and the
// credential stays as it is.
func TestEnvelope_SurvivesADaemonThatHangs(t *testing.T) {
	d := startDaemon(t)
	d.launch("lp-1")
	s := d.wrap("lp-1")
	s.expectOriented()
	const hang = 5 * time.Second
	goesOn := make(chan struct{})
	d.mu.Lock()
	d.onCall = func() { <-goesOn }
	d.mu.Unlock()
	begin := time.Now()
	time.AfterFunc(hang, func() { close(goesOn) })
	if got := s.call("tools/call", `{"name":"sophia.orient"}`); !strings.Contains(got, `"oriented":"sophia.orient"`) {
		t.Errorf("after the hang: %s", got)
	}
	if took := time.Since(begin); took < hang {
		t.Errorf("answered after %s, by nobody", took)
	}
	if n := d.calls.Load(); n != 2 {
		t.Errorf("%d calls were made, want 2", n)
	}
	if got := s.call("tools/list", `{}`); !strings.Contains(got, "sophia.orient") {
		t.Errorf("and then: %s", got)
	}
	select {
	case f := <-d.failed:
		t.Errorf("the launch failed: %s", f)
	default:
	}
}
