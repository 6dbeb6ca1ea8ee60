// Package harnesses installs the real agent CLIs for tests, at the versions
// that Sophia's contracts were witnessed at, from npm into a cache that
// outlives the test run.
//
//	harnesses.Codex(t)       path of the native Codex in its vendor tree
//	harnesses.ClaudeCode(t)  path of the native Claude Code (npm gives it two hard links)
//	harnesses.Scratch(t)     a private folder outside temp folders, which Codex refuses
//	harnesses.ExpiredClaude  a login of Claude Code's that must be renewed, and where
package harnesses

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Versions that are installed.
const (
	CodexVersion      = "0.147.0"
	ClaudeCodeVersion = "2.1.222"
)

// Codex returns the path of the native program; its vendor tree is two
// folders up.
func Codex(tb testing.TB) string {
	tb.Helper()
	path, err := InstallCodex()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// ClaudeCode returns the path of the native program.
func ClaudeCode(tb testing.TB) string {
	tb.Helper()
	path, err := InstallClaudeCode()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// InstallCodex is Codex for programs that are not tests.
func InstallCodex() (string, error) {
	arch, triple := "x64", "x86_64-unknown-linux-musl"
	if runtime.GOARCH == "arm64" {
		arch, triple = "arm64", "aarch64-unknown-linux-musl"
	}
	return install("@openai/codex@"+CodexVersion, "codex-"+CodexVersion, "@openai/codex-linux-"+arch+"/vendor/"+triple+"/bin/codex")
}

// InstallClaudeCode is ClaudeCode for programs that are not tests.
func InstallClaudeCode() (string, error) {
	arch := "x64"
	if runtime.GOARCH == "arm64" {
		arch = "arm64"
	}
	return install("@anthropic-ai/claude-code@"+ClaudeCodeVersion, "claude-code-"+ClaudeCodeVersion, "@anthropic-ai/claude-code-linux-"+arch+"/claude")
}

// Cache is the folder that tests may fill and that outlives them.
func Cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "sophia-test")
	return dir, os.MkdirAll(dir, 0o700)
}

// Scratch returns a fresh private folder outside every temp folder, with a
// short path, removed at the end of the test.
func Scratch(tb testing.TB) string {
	tb.Helper()
	cache, err := Cache()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "s-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Adopted trees are read-only, folders too.
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("scratch folder stays: %v", err)
		}
	})
	return dir
}

// install puts an npm package into a folder of its own, once, under a lock,
// and gives the path of its program. A folder is complete or not there.
func install(pkg, name, program string) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "npm")
	dir := filepath.Join(root, name)
	path := filepath.Join(dir, "node_modules", program)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(root, name+".lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := flock(lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil { // somebody else was quicker
		return path, nil
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	cmd := exec.Command("npm", "install", "--prefix", partial, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install %s: %w\n%s", pkg, err, out)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", err
	}
	_, err = os.Stat(path)
	return path, err
}

func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
