package ownercli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wire does to a configuration what connect does.
func wire(t testing.TB, verb, connection, path string, at time.Time) wired {
	t.Helper()
	before, err := os.ReadFile(path)
	existed := err == nil
	cl, _ := clientOf(verb)
	w := wired{Connection: connection, Client: verb, At: at, Path: path, Made: !existed,
		Wiring: Wiring{URL: "http://127.0.0.1:1/mcp", BearerFile: "/b/" + connection + ".bearer", Wrapper: "/w"}}
	after, err := cl.edit(before, w.Wiring)
	if err != nil {
		t.Fatal(err)
	}
	w.change(before, after)
	write(t, path, after)
	return w
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever the file was, connect and disconnect give it its bytes back.
func TestDisconnect_GivesTheFileItsBytesBack(t *testing.T) {
	dir := t.TempDir()
	for verb, befores := range map[string][]string{
		"claude-code": {"", "{}", "{ }\n", "{\"a\":1}", "{\n\t\"mcpServers\": {}\n}\n", `{"mcpServers":{"x":{}},"b":2}`, `{"mcpServers":{"sophia":{"command":"mine"}}}`},
		"codex":       {"", "model = \"x\"", "[mcp_servers.sophia]\ncommand = \"mine\"\n# remark\n\n[b]\n", "# only a remark\n\n"},
		"cursor":      {"", "{\"mcpServers\":{\"a\":{}}}\r\n"},
	} {
		for _, before := range befores {
			path := filepath.Join(dir, "config")
			write(t, path, []byte(before))
			w := wire(t, verb, "conn-1", path, time.Now())
			u, err := planUndo([]wired{w}, []string{"conn-1"}, map[string]bool{"conn-1": true})
			if err != nil || u.how != undoneExactly || u.after == nil || string(u.after) != before || len(u.over) != 1 {
				t.Errorf("%s %q: %q, %s, %v", verb, before, u.after, u.how, err)
			}
		}
	}
}

func TestDisconnect_RemovesTheFileThatConnectMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	w := wire(t, "claude-code", "conn-1", path, time.Now())
	u, err := planUndo([]wired{w}, []string{"conn-1"}, nil)
	if err != nil || u.how != undoneExactly || u.after != nil {
		t.Fatalf("%+v, %v", u, err)
	}
	if err := u.apply(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

// What the owner has edited since stays.
func TestDisconnect_AfterAnEditTakesTheEntryAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for verb, c := range map[string]struct{ before, addition, want string }{
		"claude-code": {"{\n  \"a\": 1\n}\n", "\n", "{\n  \"a\": 1\n}\n\n"},
		"codex":       {"a = 1\n", "\n[b]\nc = 2\n", "a = 1\n\n\n[b]\nc = 2\n"},
	} {
		write(t, path, []byte(c.before))
		w := wire(t, verb, "conn-1", path, time.Now())
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, append(text, c.addition...))
		u, err := planUndo([]wired{w}, []string{"conn-1"}, nil)
		if err != nil || u.how != undoneEntry || string(u.after) != c.want {
			t.Errorf("%s: %q, %s, %v", verb, u.after, u.how, err)
		}
		// Someone else's entry is not ours to remove.
		write(t, path, []byte(strings.ReplaceAll(string(text), "conn-1", "conn-other")))
		u, err = planUndo([]wired{w}, []string{"conn-1"}, nil)
		if err != nil || u.how != undoneNothing || !bytes.Equal(u.before, u.after) {
			t.Errorf("%s: %q, %s, %v", verb, u.after, u.how, err)
		}
	}
}

// Connecting again replaces the entry. Taking the new one back brings the old
// one's entry back while that lives, and not when it has ended.
func TestDisconnect_AChainOfConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	begin := time.Now()
	write(t, path, []byte("{\"a\":1}"))
	first := wire(t, "cursor", "conn-1", path, begin)
	second := wire(t, "cursor", "conn-2", path, begin.Add(time.Second))
	notes := []wired{second, first}
	for name, c := range map[string]struct {
		targets []string
		alive   map[string]bool
		entry   string // whose entry is left
		over    int
	}{
		"the new one":                  {[]string{"conn-2"}, map[string]bool{"conn-1": true, "conn-2": true}, "conn-1", 1},
		"the new one, the old is dead": {[]string{"conn-2"}, map[string]bool{"conn-2": true}, "", 2},
		"the old one":                  {[]string{"conn-1"}, map[string]bool{"conn-1": true, "conn-2": true}, "conn-2", 0},
		"both":                         {[]string{"conn-2", "conn-1"}, map[string]bool{"conn-1": true, "conn-2": true}, "", 2},
	} {
		u, err := planUndo(notes, c.targets, c.alive)
		if err != nil || len(u.over) != c.over {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
		if c.entry == "" && string(u.after) != "{\"a\":1}" || c.entry != "" && !strings.Contains(string(u.after), c.entry+".bearer") {
			t.Errorf("%s: %s", name, u.after)
		}
	}
}

// Removing what was set gives the value that was there, and no other byte.
func TestDisconnect_JSONRemovesOneMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "é\"", "", "sophia"}), rapid.Int().AsAny(), 0, 5).Draw(t, "object")
		text, _ := json.Marshal(value)
		if rapid.Bool().Draw(t, "indented") {
			text, _ = json.MarshalIndent(value, "", rapid.SampledFrom([]string{"  ", "\t"}).Draw(t, "indent"))
		}
		key := rapid.SampledFrom([]string{"a", "b", "sophia", "none"}).Draw(t, "key")
		after, err := RemoveJSON(text, []string{key})
		if err != nil {
			t.Fatal(err)
		}
		var has map[string]any
		if err := json.Unmarshal(after, &has); err != nil {
			t.Fatalf("%s became %s", text, after)
		}
		var want map[string]any
		json.Unmarshal(text, &want)
		delete(want, key)
		if !reflect.DeepEqual(has, want) {
			t.Fatalf("%s without %s became %s", text, key, after)
		}
	})
	for _, bad := range []string{"", "[]", "{", `{"a":1,"a":2}`} {
		if after, err := RemoveJSON([]byte(bad), []string{"a"}); err == nil {
			t.Errorf("%q became %q", bad, after)
		}
	}
}

func FuzzDisconnect_Codex(f *testing.F) {
	for _, seed := range []string{"", "a = 1\n[mcp_servers.sophia]\nx = 1\n# r\n[b]\n", "[mcp_servers]\nsophia = 1\n", "[mcp_servers.sophia.env]\r\nA='b'\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, before string) {
		after, err := removeCodex([]byte(before))
		if err != nil {
			return
		}
		again, err := removeCodex(after)
		if err != nil || !bytes.Equal(again, after) {
			t.Fatalf("%q became %q, then %q, %v", before, after, again, err)
		}
		if codexHolds(after, wiring) {
			t.Fatalf("%q still has an entry: %q", before, after)
		}
	})
}

func TestDisconnect_NotesAreKeptPrivately(t *testing.T) {
	s := t.TempDir()
	a := &App{Getenv: func(name string) string { return map[string]string{"SOPHIA_HOME": s}[name] }}
	dirs, err := a.Dirs()
	if err != nil {
		t.Fatal(err)
	}
	if notes, err := allWired(dirs); err != nil || len(notes) != 0 {
		t.Errorf("%v, %v", notes, err)
	}
	w := wire(t, "codex", "conn-1", filepath.Join(s, "c"), time.Now().UTC())
	if err := w.save(dirs); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(w.file(dirs))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	notes, err := allWired(dirs)
	if err != nil || len(notes) != 1 || !notes[0].At.Equal(w.At) || notes[0].SHA256 != w.SHA256 || notes[0].Inserted != w.Inserted {
		t.Errorf("%+v, %v", notes, err)
	}
	if err := w.forget(dirs); err != nil {
		t.Fatal(err)
	}
	if err := w.forget(dirs); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
