package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/testkit/world"
)

// pane is a terminal as people use it: a shell in a real tmux.
type pane struct {
	h      *house
	socket string
	runs   int
}

func (h *house) pane() *pane { h.t.Helper(); return h.paneOf("sh") }

func (h *house) paneOf(shell string) *pane {
	h.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		h.t.Skip("skipped: tmux is not installed")
	}
	p := &pane{h: h, socket: filepath.Join(h.Home, "tmux")}
	cmd := exec.Command("tmux", "-S", p.socket, "-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", "PS1='prompt> ' exec "+shell)
	cmd.Env = append(h.Env(), "PATH="+h.Bin+":"+os.Getenv("PATH"))
	cmd.Dir = h.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("tmux: %v\n%s", err, out)
	}
	h.t.Cleanup(func() {
		last, _ := exec.Command("tmux", "-S", p.socket, "capture-pane", "-p").Output() // nothing, if tmux has gone
		if h.t.Failed() {
			h.t.Logf("the terminal shows\n%s", last)
		}
		_ = exec.Command("tmux", "-S", p.socket, "kill-server").Run()
	})
	p.shows("prompt> ")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.h.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.h.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// text is what a person sees, wrapped lines joined.
func (p *pane) text() string { p.h.t.Helper(); return p.tmux("capture-pane", "-p", "-J") }

func (p *pane) shows(words string) string {
	p.h.t.Helper()
	var text string
	p.h.eventually(fmt.Sprintf("the terminal does not show %q", words), func() bool {
		text = p.text()
		return strings.Contains(text, words)
	})
	return text
}

func (p *pane) types(text string) { p.h.t.Helper(); p.tmux("send-keys", "-l", text) }
func (p *pane) keys(k ...string)  { p.h.t.Helper(); p.tmux(append([]string{"send-keys"}, k...)...) }

// modes are those of the terminal that a program can leave behind.
func (p *pane) modes() string {
	p.h.t.Helper()
	return p.tmux("display-message", "-p", "alternate=#{alternate_on} mouse=#{mouse_any_flag} cursor=#{cursor_flag} origin=#{origin_flag} wrap=#{wrap_flag} insert=#{insert_flag} keypad=#{keypad_flag} keys=#{keypad_cursor_flag} region=#{scroll_region_upper}-#{scroll_region_lower}")
}

// run types a command and returns what it printed and its exit code.
func (p *pane) run(command string) string {
	p.h.t.Helper()
	p.runs++
	p.types(fmt.Sprintf("clear; %s; echo command''%d ended $?", command, p.runs))
	p.keys("Enter")
	text, rest, _ := strings.Cut(p.shows(fmt.Sprintf("command%d ended ", p.runs)), fmt.Sprintf("command%d ", p.runs))
	code, _, _ := strings.Cut(rest, "\n")
	return text + code
}

// attach starts an agent here whose screen is a full one, and returns its launch
// once the person sees that. The agent's host has the terminal itself.
func (p *pane) attach(flags string, steps ...string) (launch string) {
	p.h.t.Helper()
	screen := `print:\e[?1049h\e[?25l\e[?1000h\e[?2004h\e[?1h\e=\e[3;20r\e[>1u\e[2J\e[HTHE AGENTS SCREEN`
	p.types("clear; sh -c 'echo $$ >viewer; exec \"$@\"' - sophia agent start --harness fake --seat Reviewer_1 " + flags + " -- session '" + screen + "' " + strings.Join(steps, " "))
	p.keys("Enter")
	text := p.shows("in the Sophia tray.")
	if _, err := fmt.Sscanf(text[max(0, strings.Index(text, "Launch lp-")):], "Launch %s is", &launch); err != nil {
		p.h.t.Fatalf("the terminal shows\n%s", text)
	}
	p.h.must(p.h.Tray.Approve(p.h.ctx(), "(Reviewer_1)"))
	p.shows("THE AGENTS SCREEN")
	host := p.h.host(launch)
	if os.Geteuid() != 0 {
		// What root sees, no process of the owner's may: the agent is one.
		if _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", host)); !errors.Is(err, fs.ErrPermission) {
			p.h.t.Errorf("the host's descriptors lie open: %v", err)
		}
		return launch
	}
	p.h.eventually("the host does not have the terminal itself", func() bool { return slices.Contains(opened(host), p.tty()) })
	return launch
}

func (p *pane) tty() string { p.h.t.Helper(); return p.tmux("display-message", "-p", "#{pane_tty}") }

// host is the process of the launch's host.
func (h *house) host(launch string) (pid int) {
	h.t.Helper()
	running, err := h.Running()
	h.must(err)
	for pid, line := range running {
		if strings.Contains(line, "sophia-host ") && strings.Contains(line, launch) {
			return pid
		}
	}
	h.t.Fatalf("no host of %s: %v", launch, running)
	return 0
}

// opened is what a process has open.
func opened(pid int) (paths []string) {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, _ := os.ReadDir(dir) // ended: nothing
	for _, e := range entries {
		if to, err := os.Readlink(dir + e.Name()); err == nil {
			paths = append(paths, to)
		}
	}
	return paths
}

// The specification's transcript, by the real program in a real terminal: start,
// see the agent's screen, type, resize, detach; the terminal is as it was, the
// agent runs on, and there is no second attach.
func TestTerminal_TheSpecsTranscriptInARealTerminal(t *testing.T) {
	h := open(t, "")
	p := h.pane()
	before, tty := p.modes(), p.run("stty -g")

	screen := `print:\e[?1049h\e[?25l\e[?1000h\e[?1006h\e[?2004h\e[?1h\e=\e[3;20r\e[>1u\e]2;agent\a\e[2J\e[H\e[1mTHE AGENTS SCREEN`
	p.types("clear; sophia agent start --harness fake --seat Reviewer_1 -- session '" + screen + "' query:'\\e[6n' echo resized forever")
	p.keys("Enter")
	text := p.shows("in the Sophia tray.")
	m := regexp.MustCompile(`Launch (lp-[0-9a-f]+) is pending_trusted_presence\.\s+Approve or deny .*\(Reviewer_1\) in the Sophia tray\.`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the transcript is\n%s", text)
	}
	launch := m[1]
	if err := h.Tray.Approve(h.ctx(), "(Reviewer_1)"); err != nil {
		t.Fatal(err)
	}
	p.shows("THE AGENTS SCREEN")
	h.eventually("the terminal does not get the agent's modes", func() bool {
		m := p.modes()
		return strings.Contains(m, "alternate=1 mouse=1 cursor=0") && strings.Contains(m, "keypad=1 keys=1")
	})
	p.shows("answer ") // of the relay or of this terminal, whoever was there
	p.types("typed by hand, end")
	p.shows("typed by hand, end")
	p.keys("Enter")
	p.shows("waiting for a resize")
	p.tmux("resize-window", "-x", "90", "-y", "33")
	p.shows("size 90x33")

	p.keys(`C-\`, "d")
	text = p.shows("prompt> ")
	if want := "Detached. " + launch + " keeps running; stop it with: sophia agent stop " + launch; !strings.Contains(p.shows("Detached."), want) {
		t.Errorf("after the detach the terminal shows\n%s\nwant %q", text, want)
	}
	if strings.Contains(text, "THE AGENTS SCREEN") {
		t.Errorf("the agent's screen was left behind:\n%s", text)
	}
	p.tmux("resize-window", "-x", "110", "-y", "40")
	if after := p.modes(); after != before {
		t.Errorf("the terminal's modes are\n%s\nthey were\n%s", after, before)
	}
	if after := p.run("stty -g"); after != tty {
		t.Errorf("the terminal line is\n%s\nit was\n%s", after, tty)
	}

	text = p.run("sophia agent attach " + launch)
	if !strings.Contains(text, "token_consumed") || !strings.Contains(strings.ToLower(text), "not possible") || !strings.Contains(text, "ended 3") {
		t.Errorf("a second attach says\n%s", text)
	}
	text = p.run("sophia agent logs " + launch)
	for _, want := range []string{"THE AGENTS SCREEN", "typed by hand, end", "size 90x33", "ended 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("agent logs lacks %q:\n%s", want, text)
		}
	}
	h.until(launch, messages.LeaseRunning) // none of it touched the agent
	text = p.run("sophia agent stop " + launch)
	if !strings.Contains(text, launch+" is ended.") {
		t.Errorf("stop says\n%s", text)
	}
	if text = p.run("sophia agent logs " + launch); !strings.Contains(text, "its output went with it") || strings.Contains(text, "ended 0") {
		t.Errorf("the logs of an ended agent:\n%s", text)
	}
	h.nothingOf(launch)
}

// kill -9 of the host, which reads and writes the person's terminal itself: the
// terminal is as it was, and the person is told. In both confinements.
func TestTerminal_HostKilled(t *testing.T) {
	h := open(t, "")
	p := h.pane()
	before, tty := p.modes(), p.run("stty -g")
	for _, confine := range []string{"standard", "strict"} {
		launch := p.attach("--confine "+confine, "fds", "echo", "forever")
		p.types("typed by hand, end")
		p.shows("typed by hand, end")
		p.keys("Enter")
		for _, path := range opened(h.programsOf(launch)["harness"]) {
			if path == p.tty() {
				t.Errorf("%s: the agent has the person's terminal open", confine)
			}
		}
		h.must(unix.Kill(h.host(launch), unix.SIGKILL))
		text := p.shows("prompt> ")
		if !strings.Contains(p.shows("terminal_lost"), "sophia agent list") || strings.Contains(text, "THE AGENTS SCREEN") {
			t.Errorf("%s: the terminal shows\n%s", confine, text)
		}
		if after := p.modes(); after != before {
			t.Errorf("%s: the terminal's modes are\n%s\nthey were\n%s", confine, after, before)
		}
		if after := p.run("stty -g"); after != tty {
			t.Errorf("%s: the terminal line is\n%s\nit was\n%s", confine, after, tty)
		}
		h.final(launch)
		h.nothingOf(launch)
	}
}

// viewer is the process of the sophia that pane.attach started.
func (h *house) viewer() (pid int) {
	h.t.Helper()
	_, err := fmt.Sscan(h.reads(filepath.Join(h.dir, "viewer"), "\n"), &pid)
	h.must(err)
	return pid
}

// A window that is closed over an agent: the agent runs on, alone.
func TestTerminal_WindowClosed(t *testing.T) {
	h := open(t, "")
	p := h.pane()
	p.tmux("new-window", "-d", "sleep 1000") // tmux ends with its last window
	launch := p.attach("", "query:'\\e[6n'", "print:ready", "wait:"+filepath.Join(h.dir, "go"), "query:'\\e[5n'", "print:alone", "forever")
	p.shows("ready")
	viewer := h.viewer()
	p.tmux("kill-pane", "-t", ":0")
	h.must(world.Gone(h.ctx(), viewer)) // it was told that it has left: from here on the relay answers
	h.write(filepath.Join(h.dir, "go"), "")
	h.eventually("nobody answers the agent's terminal queries", func() bool { return strings.Contains(h.terminal(launch), "alone") })
	h.until(launch, messages.LeaseRunning)
	h.stop(launch)
	h.final(launch)
	h.nothingOf(launch)
}

// A viewer's program that is killed is not there to take the modes back, but
// the host is.
func TestTerminal_ViewersProgramKilled(t *testing.T) {
	h := open(t, "")
	p := h.pane()
	before, tty := p.modes(), p.run("stty -g")
	launch := p.attach("", "forever")
	h.must(unix.Kill(h.viewer(), unix.SIGKILL))
	h.eventually("the terminal's modes stay the agent's", func() bool { return p.modes() == before })
	p.keys("Enter") // the shell's prompt may have been on the agent's screen
	p.shows("prompt> ")
	if after := p.run("stty -g"); after != tty {
		t.Errorf("the terminal line is\n%s\nit was\n%s", after, tty)
	}
	h.until(launch, messages.LeaseRunning)
	h.stop(launch)
	h.final(launch)
	h.nothingOf(launch)
}

// A viewer that somebody stops: what is typed then is the shell's, and not the
// agent's, which could be who stopped it. In the foreground again it goes on.
func TestTerminal_ViewersProgramStopped(t *testing.T) {
	h := open(t, "")
	p := h.paneOf("bash --norc") // sh leaves the line as the viewer has it
	launch := p.attach("", "echo", "forever")
	viewer := h.viewer()
	h.must(unix.Kill(viewer, unix.SIGSTOP))
	p.shows("Stopped")
	if text := p.run("echo for the shell"); !strings.Contains(text, "for the shell") {
		t.Errorf("the shell shows\n%s", text)
	}
	h.must(unix.Kill(viewer, unix.SIGCONT)) // it goes on, in the background
	if text := p.run("echo still for the shell"); !strings.Contains(text, "still for the shell") {
		t.Errorf("the shell shows\n%s", text)
	}
	p.types("fg")
	p.keys("Enter")
	p.types("for the agent, end")
	p.keys("Enter")
	h.eventually("the agent does not get the keys again", func() bool { return strings.Contains(h.terminal(launch), "for the agent, end") })
	if text := h.terminal(launch); strings.Contains(text, "for the shell") {
		t.Errorf("the agent got\n%s", text)
	}
	p.keys(`C-\`, "d")
	p.shows("Detached. " + launch)
	h.stop(launch)
	h.final(launch)
	h.nothingOf(launch)
}
