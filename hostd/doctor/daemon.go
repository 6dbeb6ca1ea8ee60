package doctor

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Daemon is what a running daemon tells of itself: the body of the owner API's
// GET /doctor.
type Daemon struct {
	PID       int           `json:"pid"`
	Version   string        `json:"version"`
	Now       time.Time     `json:"now"`
	Unit      string        `json:"unit"`                // the systemd unit it runs in, "" in none
	Launching string        `json:"launching,omitempty"` // why no agent can be launched, "" when one can
	MCP       string        `json:"mcp"`                 // URL
	Programs  []Program     `json:"programs"`            // what it takes for genuine
	Restarts  []Restarted   `json:"restarts"`
	Isolates  Isolates      `json:"isolates"`
	TypeCheck *TypeCheck    `json:"type_check,omitempty"` // nil: this build has none
	Harnesses []Harness     `json:"harnesses"`
	Store     Store         `json:"store"`
	Trays     int           `json:"trays"` // that listen now
	Approval  time.Duration `json:"approval_timeout"`
	Anywhere  string        `json:"tray_anywhere,omitempty"` // why the tray is taken on any terminal, "" when it isn't
	Unquiet   []Unquiet     `json:"unquiet"`
	Full      bool          `json:"full"` // the long checks were made too
}

// Restarted is a part of the supervision tree that failed.
type Restarted struct {
	Path  string `json:"path"`
	State string `json:"state"`
	Times int    `json:"times"`
}

// Isolates is the pool of execute_code's workers.
type Isolates struct {
	Strict   bool    `json:"strict"` // strict_isolates: no run without every layer
	Idle     int     `json:"idle"`
	Running  int     `json:"running"`
	Starting int     `json:"starting"`
	Failures int     `json:"failures"` // starts that failed in a row
	Problem  string  `json:"problem,omitempty"`
	Compiler string  `json:"compiler,omitempty"` // why nothing can be compiled
	Engine   string  `json:"engine"`
	Layers   []Layer `json:"layers"`
}

// Layer is one layer of a worker's lockdown, as the worker found it.
type Layer struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail,omitempty"`
}

// TypeCheck is the type check of snippets before they run.
type TypeCheck struct {
	On     bool   `json:"on"`
	Detail string `json:"detail"`
}

// Harness is one contract and what is adopted of it.
type Harness struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Pinned  string `json:"pinned"` // the --version output that launches require
	Adopted bool   `json:"adopted"`
	SHA256  string `json:"sha256,omitempty"` // of the program, as it was adopted
	Problem string `json:"problem,omitempty"`
	Mend    string `json:"mend,omitempty"`
}

// Store is the journal's end and what a check of it found.
type Store struct {
	Head     uint64    `json:"head"`    // the last entry's number
	Last     time.Time `json:"last"`    // its time; zero when there is none
	Checked  uint64    `json:"checked"` // entries that were read
	Problems []string  `json:"problems"`
}

// Unquiet is a launch that has ended and is not proven quiet.
type Unquiet struct {
	Launch string `json:"launch"`
	Reason string `json:"reason"`
}

// Judge judges what a daemon tells of itself. systemd says whether a user
// manager answers here.
func Judge(d Daemon, systemd bool) []Check {
	out := []Check{
		ok("daemon", "runs, pid %d, version %s", d.PID, d.Version), supervisedBy(d, systemd), supervision(d.Restarts),
		storeCheck(d.Store, d.Full), clock(d.Now, d.Store.Last), pool(d.Isolates),
	}
	out = append(out, layers(d.Isolates)...)
	if t := d.TypeCheck; t != nil {
		if t.On {
			out = append(out, ok("type_check", "%s", t.Detail))
		} else {
			out = append(out, warn("type_check", "Install tsgo: npm install -g @typescript/native-preview",
				"off, %s: execute_code runs, and a mistyped name is only found when it is reached", t.Detail))
		}
	}
	out = append(out, harnesses(d.Harnesses)...)
	out = append(out, tray(d.Trays, d.Approval), presence(d.Anywhere))
	for _, u := range d.Unquiet {
		out = append(out, warn("launch."+u.Launch, "End those processes; Sophia finishes by itself when they are gone.",
			"it has ended and something of it is alive, so its folder stays: %s", u.Reason))
	}
	return out
}

// Unreachable is the check of a daemon that does not answer.
func Unreachable(problem, mend string) Check {
	if mend == "" {
		mend = "Start it with: sophia up"
	}
	return fail("daemon", mend, "%s", problem)
}

func supervisedBy(d Daemon, systemd bool) Check {
	const name = "daemon.unit"
	switch {
	case d.Launching != "" && !systemd:
		return warn(name, "See the check systemd.", "runs in the foreground, and no agent can be launched")
	case d.Launching != "":
		return warn(name, "Start it as a service: sophia down, then sophia up", "no agent can be launched: %s", d.Launching)
	case strings.HasSuffix(d.Unit, ".scope"):
		return ok(name, "in the foreground, in %s: it ends with its terminal", d.Unit)
	}
	return ok(name, "runs as %s", d.Unit)
}

func supervision(all []Restarted) Check {
	const name = "supervision"
	if len(all) == 0 {
		return ok(name, "no part has failed")
	}
	var told []string
	for _, r := range all {
		text := fmt.Sprintf("%s restarted %d×", r.Path, r.Times)
		if r.State != "up" {
			text = fmt.Sprintf("%s is %s after %d restarts", r.Path, r.State, r.Times)
		}
		told = append(told, text)
	}
	return warn(name, "The daemon's log says why, see: sophia status", "%s", strings.Join(told, "; "))
}

func storeCheck(s Store, full bool) Check {
	const name = "store"
	if len(s.Problems) > 0 {
		text := strings.Join(s.Problems[:min(3, len(s.Problems))], "; ")
		if n := len(s.Problems) - 3; n > 0 {
			text += fmt.Sprintf("; and %d more", n)
		}
		return fail(name, "Stop the daemon and restore a backup of the data folder. Don't delete anything before you have a copy.", "%s", text)
	}
	how := fmt.Sprintf("the last %d are as they were written", s.Checked)
	if s.Head == s.Checked {
		how = "all are as they were written"
	}
	if full {
		how = "every row, index and entry is as it was written"
	}
	return ok(name, "%d changes; %s", s.Head, how)
}

// clockTolerance is how far the last change may lie ahead: clocks are stepped
// back by so much when they are set for the first time after a start.
const clockTolerance = 2 * time.Second

func clock(now, last time.Time) Check {
	const name = "clock"
	const mend = "Set the clock, or let it be set: timedatectl set-ntp true"
	switch {
	case now.Year() < 2025:
		return fail(name, mend, "it says %s", now.Format(time.DateTime))
	case last.After(now.Add(clockTolerance)):
		return fail(name, mend, "it says %s, and the last change was made at %s: the clock was set back by %v or more. New changes sort before older ones, and leases last longer",
			now.Format(time.DateTime), last.Format(time.DateTime), last.Sub(now).Round(time.Second))
	}
	return ok(name, "%s, not before the last change", now.Format(time.DateTime))
}

func pool(p Isolates) Check {
	const name = "isolates"
	switch {
	case p.Problem != "" && p.Idle+p.Running == 0:
		mend := "See that sophia-isolate runs: it needs a C++ runtime where it was not linked statically. The daemon's log says more."
		if p.Strict {
			mend = "Give the host what that layer needs, or run without it: strict_isolates = false in config.toml."
		}
		return fail(name, mend, "sophia.execute_code does not run, after %d tries: %s", p.Failures, p.Problem)
	case p.Compiler != "":
		return fail(name, "See that sophia-compile runs. The daemon's log says more.", "sophia.execute_code does not run: %s", p.Compiler)
	case p.Problem != "" && p.Failures > 0:
		return warn(name, "The daemon's log says more.", "%d workers in a row did not start: %s", p.Failures, p.Problem)
	}
	how := "missing layers are tolerated"
	if p.Strict {
		how = "strict"
	}
	return ok(name, "%d ready, %d running, V8 %s; %s", p.Idle, p.Running, p.Engine, how)
}

// layerCost is what a snippet that broke out of V8 could do without a layer.
// The others would still be in its way.
var layerCost = map[string]string{
	"namespaces":   "a snippet that breaks out of V8 sees the host's network namespace and your other processes' ids",
	"descriptors":  "files that the daemon's parent left open stay open in the worker",
	"no_new_privs": "a set-user-id program could raise the worker's rights",
	"dumpable":     "other programs of yours can read the worker's memory",
	"limits":       "a run can use up the machine's memory",
	"mdwe":         "memory could be made executable, were it not for the system-call filter",
	"landlock":     "files could be opened, were it not for the system-call filter",
	"seccomp":      "a snippet that breaks out of V8 can make every system call",
}

var layerMend = map[string]string{
	"namespaces": "Allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0",
	"mdwe":       "It needs Linux 6.3.",
	"landlock":   "It needs Linux 5.13 with landlock in the lsm= boot parameter.",
	"seccomp":    "It needs a kernel with CONFIG_SECCOMP_FILTER.",
}

func layers(p Isolates) []Check {
	var out []Check
	for _, l := range p.Layers {
		name := "isolates." + l.Name
		if l.On {
			detail := "on"
			if l.Detail != "" {
				detail += ", " + l.Detail
			}
			out = append(out, ok(name, "%s", detail))
			continue
		}
		cost := layerCost[l.Name]
		if cost == "" {
			cost = "isolates are guarded by the other layers alone"
		}
		mend := layerMend[l.Name]
		if mend == "" {
			mend = "The daemon's log says more."
		}
		check := warn
		if p.Strict { // nothing runs without it
			check = fail
		}
		out = append(out, check(name, mend, "off (%s): %s", l.Detail, cost))
	}
	return out
}

func harnesses(all []Harness) []Check {
	var out []Check
	any := false
	sort.SliceStable(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	for _, h := range all {
		name := "harness." + h.ID
		switch {
		case h.Problem != "":
			out = append(out, fail(name, h.Mend, "%s", h.Problem))
			any = true
		case h.Adopted:
			out = append(out, ok(name, "%s, sha256 %s", h.Pinned, h.SHA256[:min(12, len(h.SHA256))]))
			any = true
		default:
			out = append(out, ok(name, "not adopted (only needed to launch %s)", h.Title))
		}
	}
	if !any {
		out = append(out, warn("harnesses", "Run: sophia harness adopt codex, or claude-code", "none is adopted, so no agent can be launched"))
	}
	return out
}

func presence(anywhere string) Check {
	const name = "tray.presence"
	if anywhere == "" {
		return ok(name, "the tray is taken only where you logged in: on a console, over ssh, or in a window of your desktop")
	}
	return warn(name, "Launch agents that you would not give your shell with: --confine strict",
		"the tray is taken on any terminal, because %s: an unconfined agent could open one and answer for you", anywhere)
}

func tray(n int, timeout time.Duration) Check {
	const name = "tray"
	if n == 0 {
		return warn(name, "Start the tray; without a desktop, in a terminal of its own: sophia-tray --terminal",
			"none is connected: what waits for you is not shown, and is refused after %v", timeout)
	}
	if n == 1 {
		return ok(name, "one is connected")
	}
	return ok(name, "%d are connected", n)
}
