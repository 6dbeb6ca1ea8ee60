package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sophia/hostd/terminal"
	"sophia/messages"
	"sophia/testkit/world"
)

// Kill -9 of each process of a launch that runs. Without its host or its
// harness the launch fails by that name; without its wrapper it goes on, and
// the wrapper that the harness starts again gets the deposited credential.
func TestCrash_HostWrapperAndHarnessKilledWhileRunning(t *testing.T) {
	h := open(t, "")
	for _, c := range []struct{ program, code string }{{"sophia-host", "host_lost"}, {"fake-harness", "harness_failed"}} {
		h.run(c.program, func() {
			id := h.reach(messages.LeaseRunning, "print:hello from the agent", "session", "forever")
			seen := h.view(id, "hello from the agent") // with nobody there the host would keep what a fast failure said
			h.must(world.Kill(h.ctx(), h.process(c.program)))
			if text := <-seen; !strings.Contains(text, "hello from the agent") {
				h.t.Errorf("the viewer saw %q", text)
			}
			if end := h.final(id); end.State != messages.LeaseFailed || end.Code != c.code {
				h.t.Errorf("%s (%s: %s), want failed (%s)", end.State, end.Code, end.Reason, c.code)
			}
			h.nothingOf(id)
			h.noAgents()
		})
	}
	h.run("sophia-wrapper", func() {
		out, let := filepath.Join(h.dir, "out"), filepath.Join(h.dir, "let")
		id := h.reach(messages.LeaseRunning, "out:"+out, "session", "wait:"+let, "session", "forever")
		h.reads(out, "session {") // it serves: the credential is proven and deposited
		h.must(world.Kill(h.ctx(), h.process("sophia-wrapper")))
		h.write(let, "")
		h.eventually("the second wrapper has no session", func() bool {
			b, _ := os.ReadFile(out) // the first step made it
			return strings.Count(string(b), "session {") == 2
		})
		h.until(id, messages.LeaseRunning)
		if n := len(h.connectionsOf(id)); n != 1 {
			h.t.Errorf("%d connections, want the one that was deposited", n)
		}
		h.stop(id)
		h.until(id, messages.LeaseEnded)
		h.nothingOf(id)
	})
}

// view attaches to a launch, and returns once the viewer has seen the words, or
// something. All that it has seen comes when the terminal has ended.
func (h *house) view(launch, words string) <-chan string {
	h.t.Helper()
	socket, token, err := h.api.Attach(h.ctx(), launch)
	h.must(err)
	in, hangUp, err := os.Pipe()
	h.must(err)
	read, out, err := os.Pipe()
	h.must(err)
	seen, first := make(chan string, 1), make(chan struct{})
	go func() {
		defer hangUp.Close()
		defer in.Close()
		defer token.Zero()
		defer out.Close()
		_, _ = terminal.Viewer{Socket: socket, In: in, Out: out}.Attach(context.Background(), token) // how it ends is how the launch ends
	}()
	go func() {
		defer read.Close()
		var text []byte
		b, told := make([]byte, 4096), sync.OnceFunc(func() { close(first) })
		for {
			n, err := read.Read(b)
			text = append(text, b[:n]...)
			if err != nil || strings.Contains(string(text), words) {
				told()
			}
			if err != nil {
				break
			}
		}
		seen <- string(text)
	}()
	<-first
	return seen
}

// process is the one process of a program among the manager's.
func (h *house) process(program string) int {
	h.t.Helper()
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if filepath.Base(strings.Fields(line)[0]) == program {
			return pid
		}
	}
	h.t.Fatalf("no %s runs: %v", program, running)
	return 0
}

// Kill -9 of the daemon in the middle of what agents and the owner do: a script
// in its isolate, a write that waits for the owner, and one right after its
// acknowledgement. The connection works again as soon as the daemon does.
func TestCrash_DaemonKilledInTheMiddleOfACall(t *testing.T) {
	h := open(t, "")
	var minted world.Minted
	mint := make(chan error, 1)
	go func() {
		var err error
		minted, err = h.Mint(h.ctx(), "An agent", "--profile", "assistant", "--scope", "*")
		mint <- err
	}()
	h.must(h.Tray.Approve(h.ctx(), "Connect An agent"))
	h.must(<-mint)

	h.run("execute_code", func() {
		agent := h.connect(minted)
		failed := make(chan error, 1)
		go func() {
			failed <- agent.Call(h.ctx(), "sophia.execute_code", map[string]any{"timeout_ms": 30000,
				"code": `for (;;) {}`}, nil)
		}()
		h.eventually("the script does not run", func() bool { return h.burning() })
		h.kill()
		if err := <-failed; err == nil {
			h.t.Error("the cut-off script returned")
		}
		h.up()
		h.eventually("an isolate of the dead daemon lives", func() bool { return !h.burning() })
		h.noAgents()
	})
	h.run("approval waiting", func() {
		agent := h.connect(minted)
		failed := make(chan error, 1)
		go func() { failed <- agent.Call(h.ctx(), "sophia.write_wiki_page", page("page-one"), nil) }()
		h.must(h.Tray.Shows(h.ctx(), "page-one"))
		h.kill()
		if err := <-failed; err == nil {
			h.t.Error("the cut-off write was acknowledged")
		}
		h.up()
		h.nothingWaits()
		h.missing(h.connect(minted), "page-one")
	})
	h.run("acknowledged", func() {
		agent := h.connect(minted)
		done := make(chan error, 1)
		go func() { done <- agent.Call(h.ctx(), "sophia.write_wiki_page", page("page-two"), nil) }()
		h.must(h.Tray.Answer(h.ctx(), "page-two"))
		h.must(<-done)
		h.kill()
		h.up()
		h.must(h.connect(minted).Call(h.ctx(), "sophia.get_wiki_page", map[string]any{"slug": "page-two"}, nil))
	})
	h.run("mint", func() {
		shoot := h.shoot()
		known := h.bearers()
		done := make(chan error, 1)
		go func() {
			_, err := h.Mint(h.ctx(), "Cut off", "--profile", "observer")
			done <- err
		}()
		h.spin(func() bool { return len(h.bearers()) > len(known) })
		shoot()
		<-done // acknowledged or not
		h.up()
		for _, file := range h.bearers() {
			if b, err := os.ReadFile(file); err != nil || len(b) == 0 {
				continue // cut off before its bearer was written
			}
			if _, err := world.Connect(h.ctx(), h.mcp, world.Minted{BearerFile: file}); err != nil {
				h.t.Errorf("%s: %v", file, err)
			}
		}
	})
}

func page(slug string) map[string]any {
	return map[string]any{"slug": slug, "title": slug, "body": "Written by an agent."}
}

func (h *house) connect(m world.Minted) *world.Agent {
	h.t.Helper()
	agent, err := world.Connect(context.Background(), h.mcp, m)
	h.must(err)
	return agent
}

func (h *house) missing(agent *world.Agent, slug string) {
	h.t.Helper()
	err := agent.Call(h.ctx(), "sophia.get_wiki_page", map[string]any{"slug": slug}, nil)
	if r, ok := err.(world.Refusal); !ok || r.Code != "not_found" {
		h.t.Errorf("the page %s: %v, want not_found", slug, err)
	}
}

func (h *house) bearers() []string {
	files, err := filepath.Glob(filepath.Join(h.Dirs().Bearers(), "*"))
	h.must(err)
	return files
}

// burning says that an isolate has used processor time for a script: a
// second, which no other does.
func (h *house) burning() bool {
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if strings.HasPrefix(line, "sophia-isolate") && processorTime(pid) > 100 {
			return true
		}
	}
	return false
}

// processorTime is what a process has used, in hundredths of a second; 0 when
// it is gone. The 14th field of stat(5) is its own time in user mode.
func processorTime(pid int) (ticks int) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), ") ")
	ticks, _ = strconv.Atoi(strings.Fields(after)[11])
	return ticks
}
