package programs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// withCgo are the programs that link C++.
var withCgo = map[string]bool{"sophia/cmd/sophia-isolate": true}

// Ready names the environment variable with a folder of programs that are built
// already, for machines and users without the Go command. What is not in it is
// not built then.
const Ready = "SOPHIA_TEST_PROGRAMS"

type build struct {
	once sync.Once
	path string
	err  error
}

// cache lives as long as the test process: linking V8 takes seconds, and every
// test of a package wants the same file.
var cache struct {
	sync.Mutex
	builds map[string]*build
	dir    string
}

// Build builds cmd/<name> and returns the executable's path. It fails the test
// when the build fails.
func Build(tb testing.TB, name string) string {
	tb.Helper()
	return Package(tb, "sophia/cmd/"+name)
}

// Package is Build for any package main of this module.
func Package(tb testing.TB, importPath string) string {
	tb.Helper()
	b := entry(importPath)
	b.once.Do(func() { b.path, b.err = provide(tb.Context(), importPath) })
	if b.err != nil {
		tb.Fatalf("building %s: %v", importPath, b.err)
	}
	return b.path
}

// Dir returns a folder of this test's own with the named programs in it, as a
// release has them: siblings find each other by their own folder.
func Dir(tb testing.TB, names ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	for _, name := range names {
		if err := place(Build(tb, name), filepath.Join(dir, name)); err != nil {
			tb.Fatalf("placing %s: %v", name, err)
		}
	}
	return dir
}

func entry(importPath string) *build {
	cache.Lock()
	defer cache.Unlock()
	if cache.builds == nil {
		cache.builds = map[string]*build{}
	}
	if cache.builds[importPath] == nil {
		cache.builds[importPath] = &build{}
	}
	return cache.builds[importPath]
}

func provide(ctx context.Context, importPath string) (string, error) {
	if dir := os.Getenv(Ready); dir != "" {
		program := filepath.Join(dir, path.Base(importPath))
		_, err := os.Stat(program)
		return program, err
	}
	return compile(ctx, importPath)
}

// compile builds into a folder that is named by the module's root, so that the
// go command relinks only when something changed, also across test processes.
func compile(ctx context.Context, importPath string) (string, error) {
	name := path.Base(importPath)
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "sophia-test", "bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Two test processes may build the same program at once.
	lock, err := os.OpenFile(filepath.Join(dir, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	built := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", built, importPath)
	cmd.Dir = root
	cgo := "0"
	if withCgo[importPath] {
		cgo = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	// This process keeps its own name for the file: another process that builds
	// later must not change the bytes under a running test.
	own, err := processDir(dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(own, name)
	return program, place(built, program)
}

// processDir is this test process's own folder. Folders of processes that are
// gone are removed on the way.
func processDir(base string) (string, error) {
	cache.Lock()
	defer cache.Unlock()
	if cache.dir != "" {
		return cache.dir, nil
	}
	old, _ := filepath.Glob(filepath.Join(base, "of-*"))
	for _, dir := range old {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "of-%d", &pid); err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			os.RemoveAll(dir)
		}
	}
	dir := filepath.Join(base, fmt.Sprintf("of-%d", os.Getpid()))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	cache.dir = dir
	return dir, nil
}

// place copies: identity checks refuse a second hard link, and a write into a
// linked copy would reach the original.
func place(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("not inside the module: go env GOMOD is %q", mod)
	}
	return filepath.Dir(mod), nil
}
