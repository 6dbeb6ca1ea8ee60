package ownercli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sophia/hostd/paths"
	"sophia/messages/problem"
)

// wired is what connect did for one connection, kept so that disconnect can
// undo exactly that: one piece of a file that was put in place of another.
type wired struct {
	Connection string    `json:"connection"`
	Client     string    `json:"client"` // codex, claude-code, …
	At         time.Time `json:"at"`
	Wiring     Wiring    `json:"wiring"`
	Path       string    `json:"path,omitempty"`   // of the configuration, symbolic links resolved; "" when none was written
	Made       bool      `json:"made,omitempty"`   // there was no such file
	SHA256     string    `json:"sha256,omitempty"` // hex, of the file as connect left it
	Offset     int       `json:"offset,omitempty"` // bytes
	Removed    string    `json:"removed,omitempty"`
	Inserted   string    `json:"inserted,omitempty"`
}

// change fills in what was done to the file.
func (w *wired) change(before, after []byte) {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	w.Offset, w.Removed, w.Inserted = head, string(before[head:len(before)-tail]), string(after[head:len(after)-tail])
	w.SHA256 = hexSum(after)
}

func hexSum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// How an undo came out.
const (
	undoneExactly = "as_before"  // the file is byte for byte what it was
	undoneEntry   = "entry_gone" // it was edited since: the entry alone was taken out
	undoneNothing = "left_alone" // its entry is another connection's by now, or gone
)

// undo takes the change back. A nil text means that there is to be no file.
func (w *wired) undo(text []byte) (after []byte, how string, err error) {
	if hexSum(text) == w.SHA256 && w.Offset+len(w.Inserted) <= len(text) {
		if w.Made {
			return nil, undoneExactly, nil
		}
		after = append([]byte{}, text[:w.Offset]...) // not nil: an empty file was a file
		after = append(after, w.Removed...)
		return append(after, text[w.Offset+len(w.Inserted):]...), undoneExactly, nil
	}
	cl, found := clientOf(w.Client)
	if !found || !cl.holds(text, w.Wiring) {
		return text, undoneNothing, nil
	}
	after, err = cl.remove(text, strings.Contains(w.Inserted, `"mcpServers"`))
	if err != nil {
		return text, undoneNothing, err
	}
	if w.Made && (len(strings.TrimSpace(string(after))) == 0 || strings.TrimSpace(string(after)) == "{}") {
		after = nil
	}
	return after, undoneEntry, nil
}

func clientOf(verb string) (client, bool) {
	i := slices.IndexFunc(clients, func(c client) bool { return c.verb == verb })
	if i < 0 {
		return client{}, false
	}
	return clients[i], true
}

// wiredFolder has one file a connection that connect made.
func wiredFolder(d paths.Dirs) string { return filepath.Join(d.Data, "connected") }

func (w *wired) file(d paths.Dirs) string {
	return filepath.Join(wiredFolder(d), filepath.Base(w.Connection)+".json")
}

func (w *wired) save(d paths.Dirs) error {
	if err := paths.MakePrivate(wiredFolder(d)); err != nil {
		return err
	}
	text, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = replaceFile(w.file(d), append(text, '\n'))
	}
	if err != nil {
		return problem.Wrap(err, "connection_not_noted", "what was connected can't be noted in %s", wiredFolder(d))
	}
	return nil
}

func (w *wired) forget(d paths.Dirs) error {
	if err := os.Remove(w.file(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.Wrap(err, "connection_not_noted", "%s can't be removed", w.file(d))
	}
	return nil
}

// allWired is every note, newest first.
func allWired(d paths.Dirs) ([]wired, error) {
	files, err := filepath.Glob(filepath.Join(wiredFolder(d), "*.json"))
	if err != nil {
		return nil, err
	}
	var out []wired
	for _, file := range files {
		text, err := os.ReadFile(file)
		var w wired
		if err == nil {
			err = json.Unmarshal(text, &w)
		}
		if err != nil {
			return nil, problem.Wrap(err, "connection_not_noted", "%s can't be read", file).
				WithHint("Move it away, take the entry for sophia out of the agent's configuration, and run: sophia connection revoke")
		}
		out = append(out, w)
	}
	slices.SortStableFunc(out, func(x, y wired) int { return cmp.Or(y.At.Compare(x.At), strings.Compare(x.Connection, y.Connection)) })
	return out, nil
}
