package typecheck_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"

	"sophia/actors/supervise"
	"sophia/actors/typecheck"
	"sophia/actors/typecheck/lsp"
)

// The test binary is also a compiler that starts well and then never answers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--lsp" {
		hang()
		return
	}
	goleak.VerifyTestMain(m)
}

func hang() {
	in := bufio.NewReader(os.Stdin)
	diagnosed := 0
	for {
		m, err := lsp.Read(in)
		if err != nil {
			return
		}
		if len(m.ID) == 0 {
			continue
		}
		if m.Method == "textDocument/diagnostic" {
			if diagnosed++; diagnosed > 1 {
				select {} // for ever
			}
		}
		if lsp.Write(os.Stdout, lsp.Message{ID: m.ID, Result: json.RawMessage(`{"serverInfo":{"version":"fake"},"items":[]}`)}) != nil {
			return
		}
	}
}

func start(t *testing.T, cfg typecheck.Config) *typecheck.Service {
	t.Helper()
	cfg.Dir = filepath.Join(t.TempDir(), "types")
	s := typecheck.New(cfg)
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := supervise.Start(engine, "test", supervise.Policy{}, s.Spec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
	return s
}

func real(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	p := typecheck.Find("", filepath.Join(cache, "sophia-test", "npm"))
	if p == "" {
		t.Skip("tsgo_absent: no TypeScript compiler; .ci/setup installs it")
	}
	return p
}

var sdk = typecheck.NewSDK("1", `declare namespace Sophia {
  interface Hit { title: string }
  interface Methods { search(args: { query: string }): Promise<Hit>; }
}
declare const sophia: Sophia.Methods;
`, []string{"search"})

const mistake = "const h = await sophia.search({ query: 'x' })\nreturn h.titel"

func TestCheck_FindsAndPasses(t *testing.T) {
	s := start(t, typecheck.Config{Program: real(t)})
	if v := s.Check(t.Context(), mistake, sdk); v.State != typecheck.Failed || len(v.Findings) != 1 || v.Findings[0].Line != 2 || v.Findings[0].Column != 10 {
		t.Errorf("%+v", v)
	}
	if v := s.Check(t.Context(), "return (await sophia.search({ query: 'x' })).title", sdk); v.State != typecheck.Passed {
		t.Errorf("%+v", v)
	}
	// Another surface: what was right is not any more, and back.
	other := typecheck.NewSDK("2", strings.ReplaceAll(sdk.Declarations, "title", "titel"), []string{"search"})
	if v := s.Check(t.Context(), mistake, other); v.State != typecheck.Passed {
		t.Errorf("%+v", v)
	}
	if v := s.Check(t.Context(), mistake, sdk); v.State != typecheck.Failed {
		t.Errorf("%+v", v)
	}
	if st := s.Status(t.Context()); !st.On || !strings.Contains(st.Detail, "tsgo 7") {
		t.Errorf("%+v", st)
	}
}

// The first line is shifted by what is put around the snippet; the position is
// that of what was written.
func TestCheck_PositionsAreThoseOfTheCodeAsWritten(t *testing.T) {
	s := start(t, typecheck.Config{Program: real(t)})
	for code, at := range map[string][2]int{
		"sophia.serch({ query: 'x' })":                                  {1, 8},
		"const s = '😀é'; sophia.serch({ query: s })":                    {1, 24},
		"```ts\nawait sophia.serch({ query: 'x' })\n```":                {2, 14},
		"{ a: sophia.serch }":                                           {1, 13},
		"async () => {\n  return sophia.serch;\n}":                      {2, 17},
		"// a comment\n\n\nconst x = 1;\n\tsophia.serch({ query: '' })": {5, 9},
	} {
		v := s.Check(t.Context(), code, sdk)
		if v.State != typecheck.Failed || v.Findings[0].Line != at[0] || v.Findings[0].Column != at[1] {
			t.Errorf("%q: %+v, want %v", code, v, at)
		}
	}
}

// Code that could make the compiler read files is not given to it, and code that
// it has no grammar for is left to who runs it.
func TestCheck_LeavesAloneWhatIsNotItsMatter(t *testing.T) {
	s := start(t, typecheck.Config{Program: real(t)})
	for _, code := range []string{"const p: import('/etc/passwd') = sophia.serch", "/// <reference path='/etc/passwd' />\nsophia.serch", "const x = ;", "foo(", "}", strings.Repeat("(", 20000)} {
		if v := s.Check(t.Context(), code, sdk); v.State != typecheck.Skipped {
			t.Errorf("%.40q: %+v", code, v)
		}
	}
	waitFor(t, func() bool { return s.Check(t.Context(), mistake, sdk).State == typecheck.Failed })
}

func TestCheck_AbsentSaysSo(t *testing.T) {
	s := start(t, typecheck.Config{})
	if v := s.Check(t.Context(), mistake, sdk); v.State != typecheck.Absent {
		t.Errorf("%+v", v)
	}
	if st := s.Status(t.Context()); st.On || !strings.Contains(st.Detail, "not installed") {
		t.Errorf("%+v", st)
	}
}

func TestCheck_KilledCompilerIsStartedAgain(t *testing.T) {
	s := start(t, typecheck.Config{Program: real(t)})
	for range 2 {
		waitFor(t, func() bool { return s.Check(t.Context(), mistake, sdk).State == typecheck.Failed })
		pids := children(t, "tsgo")
		if len(pids) != 1 {
			t.Fatalf("compilers: %v", pids)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return s.Check(t.Context(), mistake, sdk).State == typecheck.Failed })
}

// A compiler that never answers holds nobody up for longer than the limit: the
// snippet runs unchecked, and the compiler is ended.
func TestCheck_HangingCompilerStandsInNobodysWay(t *testing.T) {
	ended := make(logged, 8)
	s := start(t, typecheck.Config{Program: os.Args[0], Log: slog.New(ended)})
	begun := time.Now()
	if v := s.Check(t.Context(), mistake, sdk); v.State != typecheck.Skipped || time.Since(begun) > 10*time.Second {
		t.Errorf("%+v after %v", v, time.Since(begun))
	}
	if r := <-ended; !strings.Contains(r.Message, "ended") {
		t.Errorf("logged %q", r.Message)
	}
	waitFor(t, func() bool { return len(children(t, filepath.Base(os.Args[0]))) == 0 })
}

// One that keeps ending is started later and later, and said to.
func TestCheck_CrashLoopBacksOffAndIsVisible(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tsgo")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho broken beyond repair >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(logged, 8)
	s := start(t, typecheck.Config{Program: program, Log: slog.New(ended)})
	var waits []time.Duration
	for range 3 {
		r := <-ended
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "next_try_in" {
				waits = append(waits, a.Value.Duration())
			}
			return true
		})
	}
	if len(waits) != 3 || waits[1] != 2*waits[0] || waits[2] != 4*waits[0] {
		t.Errorf("tried again after %v", waits)
	}
	if st := s.Status(t.Context()); st.On || !strings.Contains(st.Detail, "broken beyond repair") {
		t.Errorf("%+v", st)
	}
	if v := s.Check(t.Context(), mistake, sdk); v.State != typecheck.Skipped {
		t.Errorf("%+v", v)
	}
}

// logged hands log records on.
type logged chan slog.Record

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) Handle(_ context.Context, r slog.Record) error {
	select {
	case l <- r:
	default:
	}
	return nil
}
func (l logged) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l logged) WithGroup(string) slog.Handler      { return l }

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(20 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come to it in 20 s")
		}
	}
}

// children are this process's children of a name, those that have ended aside.
func children(t *testing.T, name string) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		b, _ := os.ReadFile(f) // the thread may be gone
		for p := range strings.FieldsSeq(string(b)) {
			comm, err := os.ReadFile("/proc/" + p + "/comm")
			if err != nil || !strings.HasPrefix(name, strings.TrimSpace(string(comm))) {
				continue
			}
			if pid, err := strconv.Atoi(p); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
