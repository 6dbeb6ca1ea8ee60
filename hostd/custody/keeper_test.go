package custody_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/hostd/custody"
	"sophia/hostd/harness/contracts"
	"sophia/messages"
	"sophia/messages/problem"
)

func fatal(tb interface {
	Helper()
	Fatal(...any)
}, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func keeper(dir string) custody.Keeper {
	set, err := contracts.New(nil)
	if err != nil {
		panic(err)
	}
	return custody.Keeper{Contracts: set, Kept: filepath.Join(dir, "kept"), Now: func() time.Time { return now }}
}

// token is a Codex login whose access token ends at the given time.
func token(refresh string, expires time.Time) string {
	body := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix()))
	return `{"OPENAI_API_KEY":null,"tokens":{"id_token":"i","access_token":"h.` + body + `.s","refresh_token":"` + refresh + `"}}`
}

func write(tb interface {
	Helper()
	Fatal(...any)
}, path, text string) {
	tb.Helper()
	fatal(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	fatal(tb, os.WriteFile(path, []byte(text), 0o600))
}

func contents(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

const blank, broken = `{"OPENAI_API_KEY":null,"tokens":null}`, `{"tokens":{"access`

func TestKeeper_Settle(t *testing.T) {
	old, renewed, elsewhere := token("r0", now), token("r1", now), token("r2", now)
	for name, c := range map[string]struct {
		copied, overlay, real string // "" is missing
		outcome, after        string
		kept                  bool
	}{
		"nothing happened":                 {old, old, old, messages.CredentialUnchanged, old, false},
		"renewed":                          {old, renewed, old, messages.CredentialWrittenBack, renewed, false},
		"written back before":              {old, renewed, renewed, messages.CredentialUnchanged, renewed, false},
		"both changed":                     {old, renewed, elsewhere, messages.CredentialConflict, elsewhere, true},
		"only the real one changed":        {old, old, elsewhere, messages.CredentialUnchanged, elsewhere, false},
		"renewed, logged out meanwhile":    {old, renewed, "", messages.CredentialConflict, "", true},
		"blanked":                          {old, blank, old, messages.CredentialBlank, old, false},
		"emptied":                          {old, "{}", old, messages.CredentialBlank, old, false},
		"deleted":                          {old, "", old, messages.CredentialBlank, old, false},
		"half written":                     {old, broken, old, messages.CredentialMalformed, old, false},
		"not an object":                    {old, "[]", old, messages.CredentialMalformed, old, false},
		"first login, in the launch":       {"", renewed, "", messages.CredentialWrittenBack, renewed, false},
		"first login, in two places":       {"", renewed, elsewhere, messages.CredentialConflict, elsewhere, true},
		"no login anywhere":                {"", "", "", messages.CredentialUnchanged, "", false},
		"blanked while the real one moved": {old, blank, elsewhere, messages.CredentialBlank, elsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			note := messages.CredentialCopy{Launch: "lp-9c41d7", Harness: "codex", Real: dir + "/home/auth.json", Copy: dir + "/overlay/auth.json"}
			fatal(t, os.MkdirAll(dir+"/home", 0o700))
			if c.copied != "" {
				note.SHA256 = sha(c.copied)
			}
			if c.overlay != "" {
				write(t, note.Copy, c.overlay)
			}
			if c.real != "" {
				write(t, note.Real, c.real)
			}
			out, err := keeper(dir).Settle(t.Context(), note)
			fatal(t, err)
			if out.Outcome != c.outcome || contents(note.Real) != c.after {
				t.Errorf("outcome %s, real %s", out.Outcome, contents(note.Real))
			}
			if c.kept != (out.Kept != "") || c.kept && contents(out.Kept) != c.overlay {
				t.Errorf("kept %q: %s", out.Kept, contents(out.Kept))
			}
			if left, _ := os.ReadDir(dir + "/home"); len(left) > 1 {
				t.Errorf("litter beside the real file: %v", left)
			}
			if st, err := os.Stat(note.Real); err == nil && st.Mode().Perm() != 0o600 {
				t.Errorf("mode %v", st.Mode())
			}
			// Again: the same or less, never another effect.
			before := contents(note.Real)
			again, err := keeper(dir).Settle(t.Context(), note)
			fatal(t, err)
			if contents(note.Real) != before || again.Kept != out.Kept {
				t.Errorf("a second time: %+v", again)
			}
		})
	}
}

// What the agent did to its copy must not keep its launch from ending.
func TestKeeper_ACopyThatCanNotBeReadIsMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(copy string) error
		user  bool // root isn't kept from reading
	}{
		"no permission": {func(c string) error { return os.Chmod(c, 0) }, true},
		"no way to it":  {func(c string) error { return os.Chmod(filepath.Dir(c), 0) }, true},
		"a folder":      {func(c string) error { return errors.Join(os.Remove(c), os.Mkdir(c, 0o700)) }, false},
		"a socket": {func(c string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(filepath.Dir(c), "s")})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = errors.Join(l.Close(), os.Rename(filepath.Join(filepath.Dir(c), "s"), c))
			}
			return err
		}, false},
		"a file above it": {func(c string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(c)), os.WriteFile(filepath.Dir(c), nil, 0o600))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.user && os.Geteuid() == 0 {
				t.Skip("root can read everything")
			}
			dir := t.TempDir()
			note := messages.CredentialCopy{Launch: "lp-9c41d7", Harness: "codex", Real: dir + "/home/auth.json", Copy: dir + "/overlay/auth.json", SHA256: sha(token("r0", now))}
			write(t, note.Real, token("r0", now))
			write(t, note.Copy, token("r1", now))
			fatal(t, c.spoil(note.Copy))
			t.Cleanup(func() { os.Chmod(filepath.Dir(note.Copy), 0o700) })
			out, err := keeper(dir).Settle(t.Context(), note)
			if err != nil || out.Outcome != messages.CredentialMalformed || contents(note.Real) != token("r0", now) {
				t.Error(out, err)
			}
		})
	}
}

func TestKeeper_ALinkInTheOverlayIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/other", token("stolen", now))
	write(t, dir+"/home/auth.json", token("r0", now))
	fatal(t, os.Mkdir(dir+"/overlay", 0o700))
	fatal(t, os.Symlink(dir+"/other", dir+"/overlay/auth.json"))
	note := messages.CredentialCopy{Launch: "lp-9c41d7", Harness: "codex", Real: dir + "/home/auth.json", Copy: dir + "/overlay/auth.json", SHA256: sha(token("r0", now))}
	out, err := keeper(dir).Settle(t.Context(), note)
	if err != nil || out.Outcome != messages.CredentialMalformed || contents(note.Real) != token("r0", now) {
		t.Fatal(out, err)
	}
}

func TestKeeper_AFailedWriteSaysSo(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/overlay/auth.json", token("r1", now))
	note := messages.CredentialCopy{Launch: "lp-9c41d7", Harness: "codex", Real: dir + "/gone/auth.json", Copy: dir + "/overlay/auth.json"}
	if _, err := keeper(dir).Settle(t.Context(), note); problem.CodeOf(err) != "credential_not_written" {
		t.Fatal(err)
	}
}

func TestKeeper_Expired(t *testing.T) {
	dir := t.TempDir()
	claude := func(at time.Time) string {
		return fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":%d}}`, at.UnixMilli())
	}
	for name, c := range map[string]struct {
		harness, text string
		want          bool
	}{
		"codex, good":        {"codex", token("r", now.Add(time.Hour)), false},
		"codex, over":        {"codex", token("r", now.Add(-time.Hour)), true},
		"codex, nearly over": {"codex", token("r", now.Add(time.Minute)), true},
		"codex, an API key":  {"codex", `{"OPENAI_API_KEY":"sk"}`, false},
		"codex, missing":     {"codex", "", false},
		"claude, good":       {"claude-code", claude(now.Add(time.Hour)), false},
		"claude, over":       {"claude-code", claude(now.Add(-time.Second)), true},
		"claude, broken":     {"claude-code", "{", false},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if c.text != "" {
			write(t, path, c.text)
		}
		if got, err := keeper(dir).Expired(t.Context(), c.harness, path); err != nil || got != c.want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// Whatever launches and the owner do: the real file is never made blank or
// malformed by us, nothing that the owner wrote is lost, and each last renewed
// credential is in the real file, or was there, or is kept.
func TestKeeper_NoUsableCredentialIsLost(t *testing.T) {
	root := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		dir := filepath.Join(root, fmt.Sprint(round))
		k := keeper(dir)
		real := dir + "/home/auth.json"
		serial := 0
		fresh := func() string { serial++; return token(fmt.Sprint("r", serial), now) }
		owners := fresh()
		write(t, real, owners)
		was := map[string]bool{owners: true} // contents that the real file has had
		var notes []messages.CredentialCopy
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			act := rapid.IntRange(0, 3).Draw(t, "act")
			switch {
			case act == 0 || len(notes) == 0: // a launch begins
				n := messages.CredentialCopy{Launch: fmt.Sprintf("lp-%06x", len(notes)), Harness: "codex", Real: real, Copy: fmt.Sprintf("%s/o%d/auth.json", dir, len(notes)), SHA256: sha(contents(real))}
				write(t, n.Copy, contents(real))
				notes = append(notes, n)
			case act == 1: // a harness renews, blanks or breaks its copy
				n := rapid.SampledFrom(notes).Draw(t, "who")
				write(t, n.Copy, rapid.SampledFrom([]string{fresh(), fresh(), blank, broken}).Draw(t, "what"))
			case act == 2: // the owner logs in anew
				owners = fresh()
				write(t, real, owners)
				was[owners] = true
			default: // a launch ends, or is looked at
				i := rapid.IntRange(0, len(notes)-1).Draw(t, "which")
				before, mine := contents(real), contents(notes[i].Copy)
				out, err := k.Settle(context.Background(), notes[i])
				fatal(t, err)
				after := contents(real)
				was[after] = true
				if after != before && (out.Outcome != messages.CredentialWrittenBack || after != mine || sha(before) != notes[i].SHA256) {
					t.Fatalf("%s changed the real file from %s to %s", out.Outcome, before, after)
				}
				if mine != blank && mine != broken && !was[mine] && contents(out.Kept) != mine {
					t.Fatalf("%s lost %s", out.Outcome, mine)
				}
				notes[i].SHA256 = out.SHA256
			}
			if r := contents(real); r == blank || r == broken || r == "" {
				t.Fatalf("the real file is %q", r)
			}
		}
	})
}

// A harness of the owner's own that renews the file at the same moment loses
// nothing, however the two interleave.
func TestKeeper_RacingWithTheOwnersOwnHarness(t *testing.T) {
	dir := t.TempDir()
	real := dir + "/home/auth.json"
	for i := range 200 {
		old, ours, theirs := token("old", now), token(fmt.Sprint("ours", i), now), token(fmt.Sprint("theirs", i), now)
		write(t, real, old)
		note := messages.CredentialCopy{Launch: "lp-9c41d7", Harness: "codex", Real: real, Copy: dir + "/o/auth.json", SHA256: sha(old)}
		write(t, note.Copy, ours)
		write(t, dir+"/home/new", theirs)
		var wg sync.WaitGroup
		var out messages.CredentialOutcome
		var err error
		wg.Go(func() { out, err = keeper(dir).Settle(context.Background(), note) })
		wg.Go(func() { _ = os.Rename(dir+"/home/new", real) })
		wg.Wait()
		fatal(t, err)
		// They wrote without looking, so theirs is what must be there in the
		// end; ours is there before it, or kept.
		if got := contents(real); got != theirs {
			t.Fatalf("round %d, %s: theirs is lost, there is %s", i, out.Outcome, got)
		}
		if out.Outcome == messages.CredentialConflict && contents(out.Kept) != ours {
			t.Fatalf("round %d: ours is not kept", i)
		}
		if left, _ := os.ReadDir(dir + "/home"); len(left) != 1 {
			t.Fatalf("round %d: litter %v", i, left)
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, s := range []string{token("r", now), blank, broken, `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}`, "null", "[]", `{"tokens":{"access_token":"a.b.c","refresh_token":"r"}}`} {
		f.Add([]byte(s))
	}
	set, err := contracts.New(nil)
	fatal(f, err)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, id := range set.IDs() {
			c, err := set.Get(id)
			fatal(t, err)
			form := c.Form(b)
			if form.Usable && (form.Blank || !json.Valid(b)) {
				t.Fatalf("%s: %+v for %q", id, form, b)
			}
		}
	})
}
