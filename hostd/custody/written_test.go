package custody_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sophia/messages"
	"sophia/messages/problem"
)

// The daemon can die between the write and the record of it in the lease: what
// it wrote must be known as Sophia's by the next one.
func TestKeeper_RemembersWhatItWroteForTheNextDaemon(t *testing.T) {
	dir := t.TempDir()
	real, copied := filepath.Join(dir, "auth.json"), filepath.Join(dir, "overlay", "auth.json")
	write(t, real, token("r0", now))
	for _, next := range []string{"r1", "r2"} {
		old := contents(real)
		write(t, copied, token(next, now))
		out, err := keeper(dir).Settle(t.Context(), messages.CredentialCopy{Launch: "lp-1", Harness: "codex", Real: real, Copy: copied, SHA256: sha(old)})
		fatal(t, err)
		if out.Outcome != messages.CredentialWrittenBack {
			t.Fatal(out)
		}
	}
	got, err := keeper(dir).Written(real)
	if want := []string{sha(token("r1", now)), sha(token("r2", now))}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if other, err := keeper(dir).Written(real + "2"); err != nil || len(other) != 0 {
		t.Errorf("of another file: %v %v", other, err)
	}
}

func TestKeeper_WritesNothingThatItCouldNotRemember(t *testing.T) {
	dir := t.TempDir()
	real, copied := filepath.Join(dir, "auth.json"), filepath.Join(dir, "overlay", "auth.json")
	write(t, real, token("r0", now))
	write(t, copied, token("r1", now))
	write(t, filepath.Join(dir, "kept"), "a file where the folder should be")
	note := messages.CredentialCopy{Launch: "lp-1", Harness: "codex", Real: real, Copy: copied, SHA256: sha(contents(real))}
	if _, err := keeper(dir).Settle(t.Context(), note); err == nil || problem.CodeOf(err) == "" {
		t.Errorf("got %v", err)
	}
	if contents(real) != token("r0", now) {
		t.Error("the real file was written")
	}
	fatal(t, os.Remove(filepath.Join(dir, "kept")))
	if out, err := keeper(dir).Settle(t.Context(), note); err != nil || out.Outcome != messages.CredentialWrittenBack {
		t.Errorf("once there is room: %v %v", out, err)
	}
}
