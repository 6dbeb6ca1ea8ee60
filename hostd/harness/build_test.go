package harness_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sophia/messages/problem"
)

// compile builds a C program for real, with flags for the linker.
func compile(tb testing.TB, source string, flags ...string) string {
	tb.Helper()
	dir := tb.TempDir()
	src, out := filepath.Join(dir, "p.c"), filepath.Join(dir, "program")
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		tb.Fatal(err)
	}
	cc := "cc"
	if _, err := exec.LookPath(cc); err != nil {
		cc = "gcc"
	}
	if text, err := exec.Command(cc, append([]string{"-O1", "-o", out, src}, flags...)...).CombinedOutput(); err != nil {
		tb.Fatalf("the C compiler: %v\n%s", err, text)
	}
	if err := os.Chmod(out, 0o755); err != nil {
		tb.Fatal(err)
	}
	return out
}

const saysVersion = `#include <stdio.h>
int main(void) { puts("fake 1.0"); return 0; }
`

func refused(tb testing.TB, err error, code string) {
	tb.Helper()
	if problem.CodeOf(err) != code {
		tb.Fatalf("got %v, want the refusal %s", err, code)
	}
}

func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}
