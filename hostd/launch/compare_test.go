package launch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/anthdm/hollywood/actor"
	"golang.org/x/sys/unix"

	actcustody "sophia/actors/custody"
	"sophia/actors/supervise"
	"sophia/hostd/custody"
	"sophia/hostd/evidence"
	"sophia/hostd/harness/contracts"
	"sophia/hostd/overlay"
	"sophia/hostd/paths"
	"sophia/messages"
)

// recorder is the custodian of a daemon without memory of the launch.
type recorder struct {
	*actcustody.Custodians
	resumed []messages.CredentialCopy
}

func (r *recorder) Resume(ctx context.Context, n messages.CredentialCopy) error {
	r.resumed = append(r.resumed, n)
	return r.Custodians.Resume(ctx, n)
}

const launchID = "lp-0123abcd"

// ended is a launch of Codex that has ended: the owner's credential, the
// overlay's, and the note in the launch's folder.
type ended struct {
	*Host
	*recorder
	kept             string
	lease            messages.Lease
	real, copy, note string
}

func end(t *testing.T) *ended {
	t.Helper()
	set, err := contracts.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	engine, err := actor.NewEngine(actor.NewEngineConfig())
	if err != nil {
		t.Fatal(err)
	}
	tree, err := supervise.Start(engine, "custody", supervise.Policy{Max: 1, Within: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := tree.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	kept := filepath.Join(root, "kept")
	custodian := &recorder{Custodians: actcustody.New(func() *supervise.Tree { return tree }, custody.Keeper{Contracts: set, Kept: kept, Now: time.Now})}
	h := &Host{Dirs: paths.Dirs{Runtime: filepath.Join(root, "run")}, Contracts: set, Custodian: custodian, Home: filepath.Join(root, "home")}
	e := &ended{Host: h, recorder: custodian, kept: kept, real: filepath.Join(h.Home, ".codex/auth.json"), note: filepath.Join(h.folder(launchID), "credential.json")}
	e.copy = filepath.Join(h.folder(launchID), overlay.Name, "auth.json")
	e.write(t, e.real, login("old"))
	before, err := evidence.Take(t.Context(), []string{e.real})
	if err != nil {
		t.Fatal(err)
	}
	e.lease = messages.Lease{Launch: launchID, Plan: messages.Plan{Launch: launchID, Harness: "codex"}, Evidence: &messages.Evidence{Before: before}}
	e.write(t, e.copy, login("old"))
	e.tell(t, messages.CredentialCopy{Launch: launchID, Harness: "codex", Real: e.real, Copy: e.copy, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(login("old"))))})
	return e
}

func login(refresh string) string {
	return `{"tokens":{"id_token":"i","access_token":"a","refresh_token":"` + refresh + `","account_id":"x"}}`
}

func (e *ended) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (e *ended) tell(t *testing.T, n messages.CredentialCopy) {
	t.Helper()
	b, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	e.write(t, e.note, string(b))
}

func (e *ended) has(t *testing.T, path, want string) {
	t.Helper()
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("%s has %q (%v), want %q", path, b, err, want)
	}
}

func (e *ended) compare(t *testing.T) messages.Evidence {
	t.Helper()
	ev, err := e.Compare(t.Context(), e.lease)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestCompare_RenewedCredentialComesBack(t *testing.T) {
	e := end(t)
	e.write(t, e.copy, login("new"))
	if ev := e.compare(t); !ev.Untouched || ev.Credential != messages.CredentialWrittenBack {
		t.Errorf("%+v", ev)
	}
	e.has(t, e.real, login("new"))
}

func TestCompare_SomebodyElsesLoginIsTampering(t *testing.T) {
	e := end(t)
	e.write(t, e.real, login("other"))
	if ev := e.compare(t); ev.Untouched || !slices.Equal(ev.Changed, []string{e.real}) {
		t.Errorf("%+v", ev)
	}
}

// The launch's folder is writable for the agent, the owner's home need not be.
func TestCompare_ANoteOfTheAgentsOwnWritesNowhere(t *testing.T) {
	e := end(t)
	forged := filepath.Join(filepath.Dir(e.copy), "forged.json")
	e.write(t, forged, login("forged"))
	for name, to := range map[string]string{"a new file": filepath.Join(e.Home, ".claude/settings.json"), "the credential": e.real} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				t.Fatal(err)
			}
			e.tell(t, messages.CredentialCopy{Launch: launchID, Harness: "codex", Real: to, Copy: forged})
			e.compare(t)
			if _, err := os.Lstat(filepath.Join(e.Home, ".claude/settings.json")); err == nil {
				t.Error("a file was made where the note said")
			}
			e.has(t, e.real, login("old"))
		})
	}
}

func TestCompare_ADeletedNoteLosesNoLogin(t *testing.T) {
	e := end(t)
	e.write(t, e.copy, login("new"))
	if err := os.Remove(e.note); err != nil {
		t.Fatal(err)
	}
	if ev := e.compare(t); ev.Credential != messages.CredentialConflict {
		t.Errorf("%+v", ev)
	}
	e.has(t, e.real, login("old"))
	kept, err := filepath.Glob(filepath.Join(e.kept, "lp-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	e.has(t, kept[0], login("new"))
}

func TestCompare_WithoutACopyThereIsNothingToGiveBack(t *testing.T) {
	e := end(t)
	if err := os.RemoveAll(e.folder(launchID)); err != nil {
		t.Fatal(err)
	}
	if ev := e.compare(t); !ev.Untouched || ev.Credential != "" {
		t.Errorf("%+v", ev)
	}
}

// A harness that was removed from config.toml: where its credential belongs is
// not known any more, so it stays where it is. Nothing is asked again and again.
func TestCompare_AHarnessThatIsNotConfiguredAnyMoreKeepsItsCredential(t *testing.T) {
	e := end(t)
	e.write(t, e.copy, login("new"))
	e.lease.Plan.Harness = "gone"
	if ev := e.compare(t); !ev.Untouched || ev.Credential != messages.CredentialUndecided {
		t.Errorf("%+v", ev)
	}
	if err := e.Strip(t.Context(), e.lease); err != nil {
		t.Error(err)
	}
	e.has(t, e.copy, login("new"))
	e.has(t, e.real, login("old"))
}

// A folder that is kept as evidence has no credential in it.
func TestStrip_LeavesAllButTheCredential(t *testing.T) {
	e := end(t)
	other := filepath.Join(filepath.Dir(e.copy), "config.toml")
	e.write(t, other, "x = 1")
	for range 2 {
		if err := e.Strip(t.Context(), e.lease); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(e.copy); !os.IsNotExist(err) {
		t.Errorf("the copy: %v", err)
	}
	e.has(t, other, "x = 1")
	e.has(t, e.real, login("old"))
}

// A report that can't be read must not keep a launch from ending.
func TestReport_UnreadableIsNone(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"missing":   os.Remove,
		"malformed": func(p string) error { return os.WriteFile(p, []byte("{"), 0o600) },
		"folder":    func(p string) error { _ = os.Remove(p); return os.Mkdir(p, 0o700) },
		"pipe":      func(p string) error { _ = os.Remove(p); return unix.Mkfifo(p, 0o600) },
		"link":      func(p string) error { _ = os.Remove(p); return os.Symlink("/dev/zero", p) },
	} {
		t.Run(name, func(t *testing.T) {
			e := end(t)
			path := filepath.Join(e.folder(launchID), reportFile)
			e.write(t, path, `{"stage":"exited"}`)
			if r := e.report(launchID); r.Stage != messages.StageExited {
				t.Fatalf("%+v", r)
			}
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if r := e.report(launchID); r != (messages.HostReport{}) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A launch that a daemon takes up has its loan still: nobody else renews the
// same login meanwhile.
func TestTakeUp_TheCredentialIsOnLoanStill(t *testing.T) {
	e := end(t)
	if err := e.TakeUp(t.Context(), e.lease); err != nil {
		t.Fatal(err)
	}
	if len(e.resumed) != 1 || e.resumed[0].Real != e.real || e.resumed[0].Launch != launchID || e.resumed[0].SHA256 == "" {
		t.Errorf("resumed %+v", e.resumed)
	}
}

func TestTakeUp_WithoutACopyThereIsNone(t *testing.T) {
	e := end(t)
	if err := os.RemoveAll(e.folder(launchID)); err != nil {
		t.Fatal(err)
	}
	if err := e.TakeUp(t.Context(), e.lease); err != nil || len(e.resumed) != 0 {
		t.Errorf("resumed %v, %v", e.resumed, err)
	}
}
