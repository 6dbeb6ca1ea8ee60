package manifest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sophia/hostd/manifest"
	"sophia/messages"
	"sophia/messages/problem"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func sample() messages.Manifest {
	id := func(p string) messages.FileIdentity {
		return messages.FileIdentity{Path: p, SHA256: strings.Repeat("ab", 32), Device: 1, Inode: 2, Size: 3, Mode: 0o755}
	}
	return messages.Manifest{
		Version: 1, Launch: "lp-9c41d7", Lease: "ls-0011aa", PlanDigest: strings.Repeat("01", 32),
		Host: id("/b/sophia-host"), Harness: id("/h/codex"), Wrapper: id("/b/sophia-wrapper"), Launcher: id("/b/sophiad"),
		Workspace: messages.DirIdentity{Path: "/w", Device: 1, Inode: 9},
		Argv:      []string{"codex", "<&>"}, Environment: map[string]string{"HOME": "/x", "A": "é"},
		Overlay: "/r/overlay", ReportPath: "/r/report.json", Expires: now.Add(time.Minute),
		Terminal: messages.TerminalSpec{Socket: "/r/terminal.sock", TokenSHA256: strings.Repeat("cd", 32), Backlog: 262144, Rows: 24, Cols: 80},
	}
}

func write(t testing.TB, m messages.Manifest) (path, digest string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), manifest.FileName)
	digest, err := manifest.Write(path, m)
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if problem.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestManifest_ConsumedOnceAndGone(t *testing.T) {
	path, digest := write(t, sample())
	got, err := manifest.Consume(path, digest, now)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sample()) {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("the file is still there")
	}
	_, err = manifest.Consume(path, digest, now)
	wantCode(t, err, "manifest_missing")
}

func TestManifest_OneOfManyHostsGetsIt(t *testing.T) {
	path, digest := write(t, sample())
	var wg sync.WaitGroup
	codes := make(chan string, 64)
	for range 64 {
		wg.Go(func() {
			_, err := manifest.Consume(path, digest, now)
			codes <- problem.CodeOf(err)
		})
	}
	wg.Wait()
	close(codes)
	won := 0
	for c := range codes {
		switch c {
		case "":
			won++
		case "manifest_missing":
		default:
			t.Errorf("unexpected %s", c)
		}
	}
	if won != 1 {
		t.Errorf("%d hosts got the manifest", won)
	}
}

func TestManifest_RefusesOtherBytes(t *testing.T) {
	path, digest := write(t, sample())
	b, _ := os.ReadFile(path)
	if err := os.WriteFile(path, bytes.Replace(b, []byte("/h/codex"), []byte("/h/cudex"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := manifest.Consume(path, digest, now)
	wantCode(t, err, "manifest_digest_mismatch")
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("a refused manifest stays readable")
	}
}

func TestManifest_Expires(t *testing.T) {
	path, digest := write(t, sample())
	_, err := manifest.Consume(path, digest, now.Add(time.Minute))
	wantCode(t, err, "manifest_expired")
}

func TestManifest_RefusesWhatIsNoPrivateFile(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"symlink":  func(p string) error { os.Rename(p, p+".real"); return os.Symlink(p+".real", p) },
		"hardlink": func(p string) error { return os.Link(p, p+".other") },
		"readable": func(p string) error { return os.Chmod(p, 0o640) },
		"folder":   func(p string) error { os.Remove(p); return os.Mkdir(p, 0o700) },
		"large":    func(p string) error { return os.Truncate(p, manifest.MaxSize+1) },
		"foreign": func(p string) error {
			if os.Geteuid() != 0 {
				os.Remove(p)
				return os.Symlink("/etc/passwd", p) // nobody but root can give a file away
			}
			return os.Chown(p, 65534, 65534)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, digest := write(t, sample())
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			_, err := manifest.Consume(path, digest, now)
			wantCode(t, err, "manifest_malformed")
		})
	}
}

func TestManifest_WritesNewPrivateFilesOnly(t *testing.T) {
	path, _ := write(t, sample())
	st, err := os.Lstat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	_, err = manifest.Write(path, sample())
	wantCode(t, err, "manifest_not_written")
}

func TestManifest_RefusesShapesThatAHostCantUse(t *testing.T) {
	for name, spoil := range map[string]func(*messages.Manifest){
		"version":     func(m *messages.Manifest) { m.Version = 2 },
		"launch":      func(m *messages.Manifest) { m.Launch = "lp-../../x" },
		"lease":       func(m *messages.Manifest) { m.Lease = "" },
		"argv":        func(m *messages.Manifest) { m.Argv = nil },
		"no expiry":   func(m *messages.Manifest) { m.Expires = time.Time{} },
		"0 rows":      func(m *messages.Manifest) { m.Terminal.Rows = 0 },
		"token":       func(m *messages.Manifest) { m.Terminal.TokenSHA256 = "" },
		"relative":    func(m *messages.Manifest) { m.Overlay = "overlay" },
		"dotted":      func(m *messages.Manifest) { m.ReportPath = "/a/../b" },
		"env":         func(m *messages.Manifest) { m.Environment = map[string]string{"A=B": "x"} },
		"invalid utf": func(m *messages.Manifest) { m.Argv = []string{"\xff"} },
		"no digest":   func(m *messages.Manifest) { m.Harness.SHA256 = "" },
	} {
		m := sample()
		spoil(&m)
		if _, err := manifest.Encode(m); problem.CodeOf(err) != "manifest_malformed" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManifest_OneEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := sample()
		m.Argv = append([]string{"codex"}, rapid.SliceOf(rapid.StringMatching(`[ -~é]*`)).Draw(t, "argv")...)
		m.Environment = rapid.MapOf(rapid.StringMatching(`[A-Z_]+`), rapid.StringMatching(`[ -~]*`)).Draw(t, "env")
		m.Expires = now.Add(time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "ns"))).In(time.FixedZone("x", 3600))
		a, err := manifest.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := manifest.Decode(a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := manifest.Encode(back)
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s\n%s\n%v", a, b, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	b, err := manifest.Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, '\n'))
	f.Add(bytes.Replace(b, []byte(`"version":1`), []byte(`"version":1,"version":1`), 1))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := manifest.Decode(b)
		if err != nil {
			wantCode(t, err, "manifest_malformed")
			return
		}
		again, err := manifest.Encode(m)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("accepted other bytes than it writes:\n%s\n%s\n%v", b, again, err)
		}
	})
}
