package supervise_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

var update = flag.Bool("update", false, "write what the traces produce to testdata")

// TestTrace runs the scenarios in testdata, in virtual time on hollywood itself,
// and compares the events. Read those files to learn the strategies. A block is
// a command, the lines that belong to it, "----", and what it produces; a line
// that starts with # is for the reader.
func TestTrace(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			blocks := readTrace(t, file)
			synctest.Test(t, func(t *testing.T) {
				env := newTraceEnv(t)
				for i := range blocks {
					blocks[i].got = env.run(blocks[i])
				}
				env.close()
			})
			if *update {
				writeTrace(t, file, blocks)
				return
			}
			for _, b := range blocks {
				if b.command != "" && b.got != b.want {
					t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", file, b.line, b.command, b.got, b.want)
				}
			}
		})
	}
}

// block is a command with its result, or text for the reader.
type block struct {
	line    int
	text    []string // comments and blank lines before the command
	command string
	args    []string
	input   []string // further lines of the command
	want    string
	got     string
}

func readTrace(t *testing.T, file string) []block {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var blocks []block
	var b block
	inWant := false
	finish := func() { blocks, b, inWant = append(blocks, b), block{}, false }
	n := 0
	for in := bufio.NewScanner(f); in.Scan(); {
		n++
		line := in.Text()
		switch {
		case inWant && line == "":
			finish()
		case inWant:
			b.want += line + "\n"
		case b.command == "" && (line == "" || strings.HasPrefix(line, "#")):
			b.text = append(b.text, line)
		case b.command == "":
			b.command, b.line = line, n
			b.args = strings.Fields(line)
		case line == "----":
			inWant = true
		default:
			b.input = append(b.input, line)
		}
	}
	finish()
	return blocks
}

func writeTrace(t *testing.T, file string, blocks []block) {
	var out strings.Builder
	for _, b := range blocks {
		for _, l := range b.text {
			out.WriteString(l + "\n")
		}
		if b.command == "" {
			continue
		}
		for _, l := range append([]string{b.command}, b.input...) {
			out.WriteString(l + "\n")
		}
		out.WriteString("----\n" + b.got + "\n")
	}
	if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// traceEnv is one scenario as it runs.
type traceEnv struct {
	t      *testing.T
	engine *actor.Engine
	tree   *supervise.Tree
	begin  time.Time
	hung   map[string]chan struct{} // ends what hangs, by child

	mu     sync.Mutex
	log    strings.Builder
	beside []string          // what other goroutines saw in this step: after the log, sorted
	bad    map[string]string // what an ID does in Started: panic or hang
}

type handler func(e *traceEnv, b block)

// handlers has a file per verb.
var handlers = map[string]handler{
	"start":    handleStart,
	"crash":    handleCrash,
	"exit":     handleExit,
	"goexit":   handleGoexit,
	"hang":     handleHang,
	"release":  handleRelease,
	"work":     handleWork,
	"send":     handleSend,
	"ask":      handleAsk,
	"monitor":  handleMonitor,
	"spoil":    handleSpoil,
	"advance":  handleAdvance,
	"add":      handleAdd,
	"remove":   handleRemove,
	"snapshot": handleSnapshot,
	"stop":     handleStop,
}

func newTraceEnv(t *testing.T) *traceEnv {
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &traceEnv{t: t, engine: engine, begin: time.Now(), hung: map[string]chan struct{}{}, bad: map[string]string{}}
}

func (e *traceEnv) run(b block) string {
	if b.command == "" {
		return ""
	}
	h := handlers[b.args[0]]
	if h == nil {
		known := make([]string, 0, len(handlers))
		for k := range handlers {
			known = append(known, k)
		}
		slices.Sort(known)
		e.t.Fatalf("line %d: unknown verb %q; known: %v", b.line, b.args[0], known)
	}
	h(e, b)
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.Sort(e.beside)
	out := e.log.String() + strings.Join(e.beside, "")
	e.log.Reset()
	e.beside = nil
	return out
}

func (e *traceEnv) printf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.WriteString(e.line(format, args...))
}

// asidef is printf for goroutines whose order among the others is not defined.
func (e *traceEnv) asidef(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beside = append(e.beside, e.line(format, args...))
}

func (e *traceEnv) line(format string, args ...any) string {
	return fmt.Sprintf("%8s  %s\n", time.Since(e.begin), fmt.Sprintf(format, args...))
}

func (e *traceEnv) report(ev supervise.Event) { e.printf("%s", ev) }

// close ends what the scenario left, so that a leaked goroutine fails the bubble.
func (e *traceEnv) close() {
	handleRelease(e, block{args: []string{"release"}})
	if e.tree != nil {
		_, err := e.tree.Stop(context.Background())
		if err != nil {
			e.t.Error(err)
		}
	}
}

// until is closed when the child is released.
func (e *traceEnv) until(id string) <-chan struct{} {
	if e.hung[id] == nil {
		e.hung[id] = make(chan struct{})
	}
	return e.hung[id]
}

func (e *traceEnv) ref(b block) *supervise.Ref {
	if len(b.args) < 2 {
		e.t.Fatalf("line %d: %s needs a child", b.line, b.args[0])
	}
	r := e.tree.Ref(b.args[1])
	if r == nil {
		e.t.Fatalf("line %d: there is no %s", b.line, b.args[1])
	}
	return r
}

// order tells a puppet what to do.
type order func(c *actor.Context)

// puppet does what it is told.
type puppet struct {
	e  *traceEnv
	id string
}

func (p puppet) Receive(c *actor.Context) {
	switch m := c.Message().(type) {
	case order:
		m(c)
	case supervise.Down:
		p.e.asidef("%s hears that %s is down: %v", p.id, m.Ref.Path(), errText(m.Reason))
	case actor.Started:
		switch p.e.flaw(p.id) {
		case "panic":
			panic("spoiled")
		case "hang":
			<-supervise.Context(c).Done()
		}
	case string:
		p.e.printf("%s handles %s", p.id, m)
	}
}

func (e *traceEnv) flaw(id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bad[id]
}

func errText(err error) string {
	if err == nil {
		return "normal"
	}
	return err.Error()
}

// spec reads "id [restart] [tree strategy] [key=value …]". Lines below that are
// indented more are its children.
func (e *traceEnv) specs(lines []string) []supervise.Spec {
	var out []supervise.Spec
	for i := 0; i < len(lines); i++ {
		depth := indent(lines[i])
		fields := strings.Fields(lines[i])
		s := supervise.Spec{ID: fields[0]}
		id := s.ID
		j := i + 1
		for j < len(lines) && indent(lines[j]) > depth {
			j++
		}
		if j > i+1 {
			s.Tree = &supervise.TreeSpec{Policy: e.policy(fields[1:]), Kids: e.specs(lines[i+1 : j])}
		} else {
			s.New = func() actor.Receiver { return puppet{e, id} }
		}
		for _, f := range fields[1:] {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "permanent":
				s.Restart = supervise.Permanent
			case "transient":
				s.Restart = supervise.Transient
			case "temporary":
				s.Restart = supervise.Temporary
			case "grace":
				s.Stop.Grace = e.duration(value)
			case "kill":
				s.Stop.Kill = e.duration(value)
			case "within":
				s.StartWithin = e.duration(value)
			case "inbox":
				s.Inbox = e.number(value)
			}
		}
		out = append(out, s)
		i = j - 1
	}
	return out
}

func indent(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

func (e *traceEnv) policy(fields []string) supervise.Policy {
	p := supervise.Policy{Report: e.report}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "one_for_one":
			p.Strategy = supervise.OneForOne
		case "one_for_all":
			p.Strategy = supervise.OneForAll
		case "rest_for_one":
			p.Strategy = supervise.RestForOne
		case "max":
			p.Max = e.number(value)
		case "within":
			p.Within = e.duration(value)
		case "backoff":
			p.Backoff.Base = e.duration(value)
		case "longest":
			p.Backoff.Max = e.duration(value)
		}
	}
	return p
}

func (e *traceEnv) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		e.t.Fatal(err)
	}
	return d
}

func (e *traceEnv) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}
