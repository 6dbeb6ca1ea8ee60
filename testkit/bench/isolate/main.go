// Command isolate measures runs of execute_code against isolated-vm in a spawned
// Node process, which is the obvious other way. Both get a fresh isolate with an
// 8 MB heap for each run; the peer gets JavaScript, so that it need not strip
// types. Ours is a locked-down process for each run.
//
//	warm_trivial, ten_calls,    one run, one client. Ours: two workers idle. The
//	fifty_sequential            peer: one process, up, which all runs share
//	cold                        from nothing to the first result: the pool with its
//	                            compiler, and a Node process
//	rate                        runs a second, ten calls each. Ours: two clients, a
//	                            process a run. The peer: one client, one process
//	                            that all runs share
//	rate_same_isolation         the same with a Node process for each run of the
//	                            peer's, and two clients: nothing is left of a run
//	                            either, but the process has its user's rights
//	idle_memory                 one idle worker, and the peer's idle process: their
//	                            proportional set sizes
//	growth                      what is left in the daemon after many runs
//	example                     the specification's own example, from an HTTP client
//	                            to its answer, types checked: in ms, without a peer
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/isolates"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/testkit/bench"
)

// reply is what every call answers: a page of three rows.
var reply = json.RawMessage(`{"items":[{"id":"doc-1","title":"A title of some length","score":0.83},{"id":"doc-2","title":"Another title","score":0.71},{"id":"doc-3","title":"A third","score":0.66}],"total":3}`)

type echo struct{}

func (echo) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return reply, nil
}

const (
	trivial    = "return 1 + 1"
	tenCalls   = "const r = await Promise.all(Array.from({ length: 10 }, (_, i) => sophia.query({ i }))); return r.reduce((n, x) => n + x.items.length, 0)"
	sequential = "let n = 0; for (let i = 0; i < 50; i++) n += (await sophia.query({ i })).items.length; return n"
)

func main() {
	rounds := flag.Int("rounds", 15, "counted rounds of each comparison")
	runs := flag.Int("runs", 1000, "runs of the growth test")
	program := flag.String("program", "bin/sophia-isolate", "the worker; its folder has sophia-compile too")
	only := flag.String("only", "", "only this part: example or growth")
	growth := flag.Int("growth", 10, "how many times the workspace, for the example's growth")
	flag.Parse()
	report := bench.NewReport("isolate", os.Stdout)
	var err error
	switch *only {
	case "example":
		err = example(context.Background(), report, *program, *growth)
	case "growth":
		err = soak(report, *runs, *program)
	case "":
		err = run(report, *rounds, *runs, *growth, *program)
	default:
		err = fmt.Errorf("there is no part %q", *only)
	}
	if err == nil {
		err = report.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench isolate:", err)
		os.Exit(1)
	}
}

// soak is the growth test alone, in the pool that the daemon has.
func soak(report *bench.Report, runs int, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	ours, err := startPool(program, 2)
	if err != nil {
		return err
	}
	defer ours.stop()
	m := &measure{ctx: context.Background(), ours: ours, report: report}
	return m.growth(runs)
}

func run(report *bench.Report, rounds, runs, growth int, program string) error {
	ctx := context.Background()
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	script, err := installPeer(ctx, filepath.Join(cache, "sophia-bench", "isolated-vm"))
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("node"); err != nil {
		return err
	}
	theirs, err := startPeer(script)
	if err != nil {
		return err
	}
	defer theirs.stop()
	ours, err := startPool(program, 2)
	if err != nil {
		return err
	}
	defer ours.stop()
	m := &measure{ctx: ctx, rounds: rounds, program: program, script: script, ours: ours, theirs: theirs, report: report}
	for _, step := range []func() error{
		func() error { return m.warm("warm_trivial_ratio", trivial, 0.15) },
		func() error { return m.warm("ten_calls_ratio", tenCalls, 0.4) },
		func() error { return m.warm("fifty_sequential_ratio", sequential, 0.6) },
		m.cold, m.rate, m.rateSameIsolation, m.memory,
		func() error { return m.growth(runs) },
		func() error { return example(ctx, m.report, program, growth) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// compiler is beside the worker.
func compiler(program string) string {
	return filepath.Join(filepath.Dir(program), "sophia-compile")
}

// pool is ours.
type pool struct {
	*isolates.Service
	tree *supervise.Tree
}

func startPool(program string, warm int) (*pool, error) {
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		return nil, err
	}
	service := isolates.New(isolates.Config{Spawn: isolates.Command(program), Compile: isolates.Apart(compiler(program)), Warm: warm})
	tree, err := supervise.Start(engine, "bench", supervise.Policy{}, service.Spec())
	if err != nil {
		return nil, err
	}
	return &pool{service, tree}, nil
}

func (p *pool) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _ = p.tree.Stop(ctx)
}

func (p *pool) run(ctx context.Context, code string) (string, error) {
	r, err := p.Run(ctx, messages.RunRequest{Code: code, Methods: []messages.Method{{Name: "query", Tool: "sophia.query"}}}, echo{})
	if err != nil {
		return "", err
	}
	if r.Error != nil {
		return "", fmt.Errorf("%s: %s", r.Error.Kind, r.Error.Message)
	}
	return string(r.Value), nil
}

// settle waits until n workers are idle and compiled: what warm means.
func (p *pool) settle(ctx context.Context, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := p.Status(ctx)
		if err != nil || s.Idle >= n && s.Starting == 0 {
			<-time.After(40 * time.Millisecond)
			return err
		}
		<-tick.C
	}
}

// idleKB is the proportional set size of this process's idle workers, in kB.
func idleKB() (kb, n int, err error) {
	self, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		return 0, 0, err
	}
	for _, f := range self {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for pid := range strings.FieldsSeq(string(b)) {
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			if strings.TrimSpace(string(name)) != "sophia-isolate" {
				continue
			}
			one, err := pss(pid)
			if err != nil {
				return 0, 0, err
			}
			kb += one
			n++
		}
	}
	return kb, n, nil
}

func pss(pid string) (int, error) {
	b, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for l := range strings.SplitSeq(string(b), "\n") {
		var kb int
		if n, _ := fmt.Sscanf(l, "Pss: %d kB", &kb); n == 1 {
			return kb, nil
		}
	}
	return 0, fmt.Errorf("process %s has no Pss", pid)
}
