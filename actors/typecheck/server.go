package typecheck

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sophia/actors/isolates/wrap"
	"sophia/actors/typecheck/judge"
	"sophia/actors/typecheck/lsp"
)

//go:embed globals.d.ts
var globals string

// tsconfig is lenient: what JavaScript allows is not complained of. Nothing is
// looked for in folders around it.
const tsconfig = `{"compilerOptions":{"strict":false,"noEmit":true,"target":"esnext","lib":["esnext"],"types":[],"module":"esnext",
"skipLibCheck":true,"allowUnreachableCode":true,"allowUnusedLabels":true},"typeAcquisition":{"enable":false},
"files":["globals.d.ts","sdk.d.ts","snippet.ts"]}`

const (
	startWithin = 10 * time.Second
	// memory is the most data that the process may have, in bytes; it needs 50 MB.
	memory = 1 << 30
)

var errEnded = errors.New("typecheck: the process ended")

// server is one running compiler. It is for one goroutine.
type server struct {
	*lsp.Client
	cmd     *exec.Cmd
	gone    chan struct{} // closed when it has ended
	stderr  tail
	version string
	dir     string
	sdk     string // the version that is open
	edits   int
}

func startServer(ctx context.Context, cfg *Config) (*server, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"tsconfig.json": tsconfig, "globals.d.ts": globals, "sdk.d.ts": "", "snippet.ts": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	s := &server{dir: dir, gone: make(chan struct{})}
	s.cmd = exec.Command(cfg.Program, "--lsp", "--stdio")
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = dir, []string{"GOMAXPROCS=2", "GOMEMLIMIT=256MiB"}, &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: Wait must not close it under the reader.
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stdout = theirs
	err = s.cmd.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	_ = unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}, nil) // GOMEMLIMIT is there too
	stop := context.AfterFunc(ctx, s.kill)
	go func() {
		_ = s.cmd.Wait() // how it ended is on its stderr
		stop()
		close(s.gone)
	}()
	s.Client = lsp.NewClient(out, in)
	go func() { <-s.gone; out.Close() }()
	return s, nil
}

func (s *server) kill() { _ = s.cmd.Process.Kill() }

func (s *server) close() {
	s.kill()
	<-s.gone
}

// why adds what the process said before it ended.
func (s *server) why(err error) error {
	s.close()
	if said := s.stderr.last(); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

func (s *server) uri(name string) string {
	return (&url.URL{Scheme: "file", Path: filepath.Join(s.dir, name)}).String()
}

type object map[string]any

// open brings the process to where checks are quick: the library is read by a
// first one.
func (s *server) open() error {
	defer time.AfterFunc(startWithin, s.kill).Stop()
	var about struct {
		ServerInfo struct{ Name, Version string }
	}
	// The process must end when this one does: its input closes.
	err := s.Call("initialize", object{"processId": nil, "rootUri": s.uri(""), "capabilities": object{"textDocument": object{"diagnostic": object{}}}}, &about)
	if err != nil {
		return err
	}
	s.version = about.ServerInfo.Version
	if err := s.Notify("initialized", object{}); err != nil {
		return err
	}
	for _, name := range []string{"sdk.d.ts", "snippet.ts"} {
		if err := s.Notify("textDocument/didOpen", object{"textDocument": object{"uri": s.uri(name), "languageId": "typescript", "version": 0, "text": ""}}); err != nil {
			return err
		}
	}
	_, err = s.diagnose("1 + 1")
	return err
}

func (s *server) edit(name, text string) error {
	s.edits++
	return s.Notify("textDocument/didChange", object{"textDocument": object{"uri": s.uri(name), "version": s.edits}, "contentChanges": []object{{"text": text}}})
}

type diagnostic struct {
	Range struct {
		Start struct{ Line, Character int }
	}
	Severity int
	Code     json.RawMessage
	Message  string
}

const isError = 1

func (s *server) diagnose(text string) ([]diagnostic, error) {
	if err := s.edit("snippet.ts", text); err != nil {
		return nil, err
	}
	var report struct {
		Kind  string
		Items []diagnostic
	}
	err := s.Call("textDocument/diagnostic", object{"textDocument": object{"uri": s.uri("snippet.ts")}}, &report)
	return report.Items, err
}

// reaches is code that could make the compiler look at files.
var reaches = regexp.MustCompile(`\b(?:import|require|export)\b|///`)

// check checks one snippet. An error is the process's; the verdict is for the
// snippet in any case.
func (s *server) check(code string, sdk *SDK) (Verdict, error) {
	skipped := Verdict{State: Skipped}
	if reaches.MatchString(code) {
		return skipped, nil
	}
	defer time.AfterFunc(limit, s.kill).Stop()
	if s.sdk != sdk.Version {
		if err := s.edit("sdk.d.ts", sdk.Declarations); err != nil {
			return skipped, err
		}
		s.sdk = sdk.Version
	}
	body := wrap.Unfence(code)
	prefix, text := wrap.Open, body
	if wrap.LooksLikeObject(body) {
		prefix, text = wrap.Object(body)
	}
	found, err := s.diagnose(wrap.Around(prefix, text))
	if err != nil {
		return skipped, err
	}
	var complaints []judge.Diagnostic
	for _, d := range found {
		var n int
		if d.Severity != isError || json.Unmarshal(d.Code, &n) != nil {
			continue
		}
		if n < 2000 {
			return skipped, nil // not the grammar that it knows: whoever compiles it says so
		}
		at := judge.Diagnostic{Code: n, Line: d.Range.Start.Line, Character: d.Range.Start.Character, Message: d.Message}
		if at.Line == 0 {
			at.Character -= len(prefix)
		}
		complaints = append(complaints, at)
	}
	if findings := judge.Judge(body, complaints, sdk.Known); len(findings) > 0 {
		return Verdict{State: Failed, Findings: findings}, nil
	}
	return Verdict{State: Passed}, nil
}

// tail keeps the end of what was written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const maxTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// last is the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
