package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/ownerapi"
	"sophia/messages"
	"sophia/testkit/harnesses"
	"sophia/testkit/modelapi"
	"sophia/testkit/world"
)

// The real Codex and the real Claude Code, by managed launches in one house
// whose owner's home and project are full of what a harness might pick up.
func TestAgents_TheRealHarnesses(t *testing.T) {
	codex, claude := harnesses.Codex(t), harnesses.ClaudeCode(t)
	h := build(t, binaries(t))
	polluted := harnesses.Pollute(t, filepath.Join(h.Home, "p"))
	h.Person, h.dir = polluted.Home, polluted.Project
	h.Dir = h.dir
	model := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "All oriented."})
	h.write(filepath.Join(h.Person, ".codex", "auth.json"), `{"OPENAI_API_KEY":"sk-fake-for-tests"}`)
	// What the owner has decided in Claude Code before; its servers stay out.
	h.write(filepath.Join(h.Person, ".claude.json"), fmt.Sprintf(`{"hasCompletedOnboarding":true,"projects":{%q:{"hasTrustDialogAccepted":true}},"mcpServers":{"homesrv":{"command":"/bin/sh","args":["-c","touch %s/MARK-homesrv"]}}}`, h.dir, polluted.Marks))
	h.furnish(world.CodexAt(model.URL) + `
[harness.claude-code.environment]
ANTHROPIC_BASE_URL = "` + model.URL + `"
ANTHROPIC_AUTH_TOKEN = "fake-for-tests"
CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = "1"
`)
	h.adopt("codex", codex)
	h.adopt("claude-code", claude)

	for _, c := range []struct {
		name string
		ask  ownerapi.StartRequest
	}{
		{"Codex", ownerapi.StartRequest{Harness: "codex", Isolated: true, Arguments: []string{"please orient"}}},
		{"Codex, strict", ownerapi.StartRequest{Harness: "codex", Isolated: true, Confine: "strict", Arguments: []string{"please orient"}}},
		{"Claude Code", ownerapi.StartRequest{Harness: "claude-code", Isolated: true, Arguments: []string{"please orient"}}},
		{"Claude Code, strict", ownerapi.StartRequest{Harness: "claude-code", Isolated: true, Confine: "strict", Arguments: []string{"please orient"}}},
	} {
		h.run(c.name, func() { h.turn(model, polluted, c.ask) })
	}
}

// turn has an agent started, make its call, and stopped, and looks for what
// should not be.
func (h *house) turn(model *modelapi.Server, polluted harnesses.Pollution, ask ownerapi.StartRequest) {
	before, asked := len(model.ToolOutputs()), len(model.Requests())
	l := h.proposeAs(ask)
	h.approve(l)
	h.until(l.Launch, messages.LeaseRunning)
	outputs, err := model.WaitToolOutputs(h.ctx(), before+1)
	if err != nil {
		h.t.Fatalf("%v\nits terminal:\n%s\n%s", err, h.terminal(l.Launch), h.log())
	}
	if got := outputs[before].Text; !strings.Contains(got, "_inbox_unread") {
		h.t.Errorf("what reached the model is no answer of Sophia's: %.300s", got)
	}
	h.eventually("the model's last words are not on the terminal", func() bool { return strings.Contains(h.terminal(l.Launch), "All oriented.") })
	h.bearerOf(l.Launch, model)
	h.stop(l.Launch)
	end := h.until(l.Launch, messages.LeaseEnded)
	if end.Evidence == nil || !end.Evidence.Untouched || len(end.Evidence.After) < 10 {
		h.t.Errorf("the evidence: %+v", end.Evidence)
	}
	h.nothingOf(l.Launch)
	h.noAgents()
	var bodies [][]byte
	for _, r := range model.Requests()[asked:] {
		bodies = append(bodies, r.Body)
	}
	polluted.Check(h.t, bodies...)
	for _, server := range servers(bodies) {
		if server != "sophia" {
			h.t.Errorf("the model was offered tools of %q", server)
		}
	}
}

// servers are the MCP servers whose tools the model was offered.
func servers(bodies [][]byte) (out []string) {
	for _, b := range bodies {
		var request struct {
			Tools []struct{ Name string } `json:"tools"`
		}
		if json.Unmarshal(b, &request) != nil {
			continue
		}
		for _, t := range request.Tools {
			if name, ok := strings.CutPrefix(t.Name, "mcp__"); ok {
				name, _, _ = strings.Cut(name, "__")
				out = append(out, name)
			}
		}
	}
	return out
}

// terminal is the plain text of what the launch has shown.
func (h *house) terminal(launch string) string {
	c := h.Command(h.ctx(), "sophia", "agent", "logs", launch)
	out, _ := c.CombinedOutput() // what it can't read is not there yet
	return string(out)
}

// token is what a bearer looks like.
var token = regexp.MustCompile(`sophia_[A-Za-z0-9_-]{43}`)

// bearerOf searches for the bearer of a launch that runs. Nobody has it but the
// wrapper, so what is known of it is its digest; the control is the wrapper's
// own memory, where it must be found.
func (h *house) bearerOf(launch string, model *modelapi.Server) {
	h.t.Helper()
	rows := h.connectionsOf(launch)
	if len(rows) != 1 {
		h.t.Fatalf("%d connections of %s", len(rows), launch)
	}
	s := search{digest: rows[0].BearerSHA256}
	wrapper := h.wrapperOf(launch)
	if os.Geteuid() == 0 && !s.memory(wrapper) {
		h.t.Errorf("the control failed: the wrapper's memory has no bearer of digest %s", s.digest)
	}
	s.found = nil
	processes, err := filepath.Glob("/proc/[0-9]*")
	h.must(err)
	for _, p := range processes {
		for _, f := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(filepath.Join(p, f))
			if err == nil {
				s.in(filepath.Join(p, f), b)
			}
		}
	}
	files := 0
	for _, root := range []string{filepath.Join(h.Home, "s"), h.Person, h.Manager.RuntimeDir} {
		h.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, h.Dirs().Harnesses()) {
				return nil // gone meanwhile, a socket, or a harness's own bytes
			}
			b, err := os.ReadFile(path)
			if err == nil {
				files++
				s.in(path, b)
			}
			return nil
		}))
	}
	if overlay := filepath.Join(h.Dirs().Launches(), launch, "overlay"); files < 20 {
		h.t.Errorf("only %d files were searched, the overlay is %s", files, overlay)
	}
	journal, err := h.Command(h.ctx(), "sophia", "journal", "list", "--limit", "200", "--json").Output()
	h.must(err)
	s.in("the journal", journal)
	s.in("the terminal", []byte(h.terminal(launch)))
	for _, r := range model.Requests() {
		s.in("a request to the model", r.Body)
	}
	for _, where := range s.found {
		h.t.Errorf("the bearer is in %s", where)
	}
}

// wrapperOf is the process of the launch's wrapper.
func (h *house) wrapperOf(launch string) int {
	h.t.Helper()
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if f := strings.Fields(line); filepath.Base(f[0]) == "sophia-wrapper" && strings.Contains(line, launch) {
			return pid
		}
	}
	h.t.Fatalf("no wrapper of %s runs: %v", launch, running)
	return 0
}

// search looks for the one bearer whose SHA-256 is known.
type search struct {
	digest string
	found  []string
}

func (s *search) in(where string, b []byte) {
	for _, candidate := range token.FindAll(b, -1) {
		if sum := sha256.Sum256(candidate); hex.EncodeToString(sum[:]) == s.digest {
			s.found = append(s.found, where)
			return
		}
	}
}

// memory searches a process's private memory.
func (s *search) memory(pid int) bool {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return false
	}
	mem, err := os.Open("/proc/" + strconv.Itoa(pid) + "/mem")
	if err != nil {
		return false
	}
	defer mem.Close()
	for line := range bytes.Lines(maps) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") || to-from > 256<<20 {
			continue
		}
		b := make([]byte, to-from)
		n, err := unix.Pread(int(mem.Fd()), b, from)
		if n > 0 && (err == nil || err == io.EOF) {
			s.in("memory", b[:n])
		}
	}
	return len(s.found) > 0
}

// Confined strictly, an agent can't write outside its workspace and overlay,
// sees no other file of its owner's home, and can't leave its control group,
// neither by hand nor by having systemd start something elsewhere. Each attempt
// succeeds in standard confinement, so that what is refused is refused by this.
func TestAgents_StrictConfinementProvenFromInside(t *testing.T) {
	h := open(t, "")
	h.write(filepath.Join(h.Person, "diary"), "mine")
	escape := h.escape()
	outside := filepath.Join(h.Person, "outside")
	systemd := fmt.Sprintf("run:/usr/bin/env XDG_RUNTIME_DIR=%s DBUS_SESSION_BUS_ADDRESS=unix:path=%s/bus systemd-run --user --wait --quiet true", h.Manager.RuntimeDir, h.Manager.RuntimeDir)
	system := h.systemFolder()
	for confine, free := range map[string]bool{"standard": true, "strict": false} {
		h.run(confine, func() {
			out := filepath.Join(h.dir, "out-"+confine)
			attempts := []struct {
				step string
				can  bool
			}{
				{"write:" + filepath.Join(h.dir, "mine-"+confine), true},
				{"write:$FAKE_HOME/mine", true},
				{"write:" + outside, free},
				{"write:" + filepath.Join(system, confine), free},
				{"run:/bin/cat " + filepath.Join(h.Person, "diary"), free},
				{"list:" + h.Person, free},
				{"write:" + filepath.Join(escape, "cgroup.procs"), free},
				{systemd, free},
			}
			steps := []string{"session", "out:" + out}
			for _, a := range attempts {
				steps = append(steps, a.step)
			}
			l := h.proposeAs(ownerapi.StartRequest{Harness: "fake", Confine: confine, Arguments: append(steps, "print:looked", "forever")})
			h.approve(l)
			h.until(l.Launch, messages.LeaseRunning)
			text := h.reads(out, "looked")
			lines := strings.Split(text, "\n")
			for i, a := range attempts {
				if done := strings.Contains(lines[i], ": done "); done != a.can {
					h.t.Errorf("%s: %s; want that it can: %v", a.step, lines[i], a.can)
				}
			}
			h.stop(l.Launch)
			h.until(l.Launch, messages.LeaseEnded)
			h.nothingOf(l.Launch)
		})
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("standard confinement could not write it: %v", err)
	}
}

// systemFolder is a folder outside of all homes and temp folders; only root can
// make one, and a user can't write to any.
func (h *house) systemFolder() string {
	if os.Geteuid() != 0 {
		return h.Person
	}
	dir, err := os.MkdirTemp("/var/lib", "sophia-e2e-")
	h.must(err)
	h.t.Cleanup(func() { h.must(os.RemoveAll(dir)) })
	return dir
}
