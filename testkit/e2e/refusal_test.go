package e2e

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sophia/hostd/ownerapi"
	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
	"sophia/testkit/fakeharness"
	"sophia/testkit/world"
)

// ownBinaries are copies of the programs that a test may spoil.
func (h *house) ownBinaries(from string) {
	h.t.Helper()
	h.Bin = filepath.Join(h.Home, "bin")
	h.must(os.Mkdir(h.Bin, 0o700))
	for _, name := range shipped {
		h.copy(filepath.Join(from, name), filepath.Join(h.Bin, name), nil)
	}
}

// copy copies a program into a new file and appends to it.
func (h *house) copy(from, to string, more []byte) {
	h.t.Helper()
	b, err := os.ReadFile(from)
	h.must(err)
	h.must(os.WriteFile(to+".new", append(b, more...), 0o700))
	h.must(os.Rename(to+".new", to))
}

// What was approved is what runs: between the proposal and the approval one
// thing changes at a time. The launch is refused by the name of what differs,
// nothing is started, and when it is put back a launch works as before.
func TestRefusal_WhatDriftedFromItsApprovalIsNotStarted(t *testing.T) {
	h := build(t, binaries(t))
	h.ownBinaries(h.Bin)
	h.furnish("")
	wrapper, moved := filepath.Join(h.Bin, "sophia-wrapper"), filepath.Join(h.Home, "moved")
	program := h.adopted("fake").Identity.Path
	replace := func(path string) (undo func()) {
		dir := filepath.Dir(path)
		mode, err := os.Stat(dir)
		h.must(err)
		h.must(os.Chmod(dir, 0o700))
		h.must(os.Rename(path, moved))
		h.copy(moved, path, []byte{0})
		h.must(os.Chmod(path, 0o500))
		return func() { h.must(os.Rename(moved, path)); h.must(os.Chmod(dir, mode.Mode())) }
	}
	h.run("it runs, and stays held and hashed for the next", func() {
		id := h.reach(messages.LeaseRunning, "session", "forever")
		h.stop(id)
		h.until(id, messages.LeaseEnded)
	})
	for _, c := range []struct {
		name   string
		change func() (undo func())
		code   string
		names  string // in the reason
	}{
		{"the wrapper is another program", func() func() { return replace(wrapper) }, "plan_field_mismatch", "wrapper."},
		{"the host is another program", func() func() { return replace(filepath.Join(h.Bin, "sophia-host")) }, "plan_field_mismatch", "host."},
		{"a byte of the adopted harness is another", func() func() { return replace(program) }, "plan_field_mismatch", "harness_identity."},
		{"the workspace is another folder", func() func() {
			h.must(os.Rename(h.dir, moved))
			h.must(os.Mkdir(h.dir, 0o700))
			return func() { h.must(os.Remove(h.dir)); h.must(os.Rename(moved, h.dir)) }
		}, "plan_field_mismatch", "workspace_dir.inode"},
		{"another build of the harness was adopted", func() func() {
			other := filepath.Join(h.Home, "fake-harness")
			h.copy(fakeharness.Build(t), other, []byte{0})
			a := h.adopt("fake", other)
			tree := filepath.Dir(filepath.Dir(a.Path))
			return func() { h.must(world.RemoveAll(tree)) }
		}, "plan_field_mismatch", "harness_identity."},
	} {
		h.run(c.name, func() {
			l := h.propose("session", "forever")
			undo := c.change()
			h.approve(l)
			end := h.until(l.Launch, messages.LeaseRefused)
			undo()
			if end.Code != c.code || !strings.Contains(end.Reason, c.names) {
				h.t.Errorf("%s: %s; want %s that names %s", end.Code, end.Reason, c.code, c.names)
			}
			if end.Unit.Name != "" || end.Connection != "" {
				h.t.Errorf("unit %q, connection %q; want nothing started", end.Unit.Name, end.Connection)
			}
			h.nothingOf(l.Launch)
			h.noAgents()
		})
		if t.Failed() {
			return
		}
	}
	h.run("put back, it runs", func() {
		id := h.reach(messages.LeaseRunning, "session", "forever")
		h.stop(id)
		h.until(id, messages.LeaseEnded)
	})
}

// adopted is what is adopted of a harness.
func (h *house) adopted(id string) ownerapi.Harness {
	h.t.Helper()
	page, err := h.api.Harnesses(h.ctx())
	h.must(err)
	for _, a := range page.Items {
		if a.Harness == id {
			return a
		}
	}
	h.t.Fatalf("%s is not adopted", id)
	return ownerapi.Harness{}
}

// The harness is checked when it is verified, and once more right before it
// runs: a byte that changes in between is caught.
func TestRefusal_AHarnessSwappedAfterItsVerification(t *testing.T) {
	h := open(t, "")
	id := h.held("session", "forever")
	h.must(h.Manager.Freeze())
	h.write(h.gate, "")
	h.until(id, messages.LeaseStarting)
	program := h.adopted("fake").Identity.Path
	h.must(os.Chmod(filepath.Dir(program), 0o700))
	h.copy(fakeharness.Build(t), program, []byte{0})
	h.must(os.Chmod(program, 0o500))
	h.must(h.Manager.Thaw())
	end := h.final(id)
	if end.Code != "managed_harness_identity_changed" || end.State != messages.LeaseRefused && end.State != messages.LeaseFailed {
		t.Errorf("%s (%s: %s)", end.State, end.Code, end.Reason)
	}
	if end.Connection != "" {
		t.Errorf("it got the connection %s", end.Connection)
	}
	h.nothingOf(id)
	h.noAgents()
}

// The unit's own command line, run once more: the manifest is gone, and the
// launch that consumed it is none the worse.
func TestRefusal_AReplayedManifest(t *testing.T) {
	h := open(t, "")
	id := h.reach(messages.LeaseRunning, "session", "forever")
	var command []string
	running, err := h.Running()
	h.must(err)
	for _, line := range running {
		if f := strings.Fields(line); filepath.Base(f[0]) == "sophia-host" {
			command = f
		}
	}
	if len(command) != 3 {
		t.Fatalf("the host's command line is %q among %v", command, running)
	}
	report := filepath.Join(h.Dirs().Launches(), id, "report.json")
	before, err := os.ReadFile(report)
	h.must(err)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if code := exitCode(err); code != 77 || !strings.Contains(string(out), "manifest_missing") {
		t.Errorf("exit %d: %s; want 77 and manifest_missing", code, out)
	}
	if after, err := os.ReadFile(report); err != nil || string(after) != string(before) {
		t.Errorf("the running launch's report was\n%s and is\n%s, %v", before, after, err)
	}
	h.until(id, messages.LeaseRunning)
	h.stop(id)
	if end := h.final(id); end.State != messages.LeaseEnded || end.Code != "stopped_by_owner" {
		t.Errorf("%s (%s: %s)", end.State, end.Code, end.Reason)
	}
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// A hundred attach at once: one gets the token. A hundred use that token at
// once: one gets the terminal.
func TestRefusal_OfAHundredAttachesOneSucceeds(t *testing.T) {
	h := open(t, "")
	id := h.reach(messages.LeaseRunning, "print:hello from the agent", "session", "forever")
	const n = 100
	type got struct {
		socket string
		token  *secret.Secret
		err    error
	}
	tokens := make(chan got, n)
	for range n {
		go func() {
			socket, token, err := h.api.Attach(h.ctx(), id)
			tokens <- got{socket, token, err}
		}()
	}
	var won got
	for range n {
		switch g := <-tokens; {
		case g.err == nil && won.token == nil:
			won = g
		case g.err == nil:
			t.Error("a second token was given out")
			g.token.Zero()
		case problem.CodeOf(g.err) != "token_consumed":
			t.Errorf("%v, want token_consumed", g.err)
		}
	}
	if won.token == nil {
		t.Fatal("nobody got the token")
	}
	defer won.token.Zero()
	viewers, seen := h.hundredViewers(won.socket, won.token, n)
	in := 0
	for _, err := range viewers {
		switch code := problem.CodeOf(err); {
		case err == nil:
			in++
		case code != "token_consumed" && code != "viewer_present":
			t.Errorf("%v, want token_consumed or viewer_present", err)
		}
	}
	if in != 1 || strings.Count(seen, "hello from the agent") != 1 {
		t.Errorf("%d viewers got in and saw %q", in, seen)
	}
	h.until(id, messages.LeaseRunning) // none of it touched the agent
	h.stop(id)
	h.until(id, messages.LeaseEnded)
}

// hundredViewers attach with the same token. The one that gets in stays until
// all others have been refused.
func (h *house) hundredViewers(socket string, token *secret.Secret, n int) (errs []error, seen string) {
	h.t.Helper()
	in, hangUp, err := os.Pipe() // its end makes the viewer leave
	h.must(err)
	defer in.Close()
	read, out, err := os.Pipe()
	h.must(err)
	defer read.Close()
	shown := make(chan string)
	go func() {
		b, _ := io.ReadAll(read)
		shown <- string(b)
	}()
	results := make(chan error, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := terminal.Viewer{Socket: socket, In: in, Out: out}.Attach(ctx, token)
			results <- err
		})
	}
	for range n - 1 {
		errs = append(errs, <-results)
	}
	hangUp.Close()
	errs = append(errs, <-results)
	all.Wait()
	out.Close()
	return errs, <-shown
}

// Only the wrapper that the plan names gets the credential, and several of it
// in one launch share one: a copy with a byte more is refused before it is
// served anything, and afterwards three genuine ones come at once.
func TestRefusal_TheCredentialIsRedeemedOnce(t *testing.T) {
	h := open(t, "")
	foreign, out := filepath.Join(h.Home, "sophia-wrapper"), filepath.Join(h.dir, "out")
	h.copy(filepath.Join(h.Bin, "sophia-wrapper"), foreign, []byte{0})
	id := h.reach(messages.LeaseRunning, "out:"+out, "mcp:"+foreign+" --launch $SOPHIA_LAUNCH --socket $FAKE_HOME/../envelope.sock",
		"child:out:"+out+";session;forever", "child:out:"+out+";session;forever", "session", "forever")
	h.eventually("not all wrappers got their session", func() bool {
		b, _ := os.ReadFile(out)
		return strings.Count(string(b), "session {") == 3
	})
	if text := h.reads(out, "mcp exit"); !strings.Contains(text, "mcp exit: 3") || strings.Contains(text, "mcp {") {
		t.Errorf("the foreign wrapper was served: %s", text)
	}
	if n := len(h.connectionsOf(id)); n != 1 {
		t.Errorf("%d connections were minted for the launch, want 1", n)
	}
	h.stop(id)
	h.until(id, messages.LeaseEnded)
	for _, c := range h.connectionsOf(id) {
		if c.Revoked == nil {
			t.Errorf("%s is not revoked", c.Connection)
		}
	}
	h.nothingOf(id)
}

func (h *house) connectionsOf(launch string) (out []messages.ConnectionRow) {
	page, err := h.api.Connections(h.ctx())
	h.must(err)
	for _, c := range page.Items {
		if c.Launch == launch {
			out = append(out, c)
		}
	}
	return out
}
