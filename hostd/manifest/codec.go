package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"sophia/messages"
	"sophia/messages/problem"
)

// Version is the only manifest version that this host understands.
const Version = 1

// MaxSize bounds a manifest, in bytes. A real one has 2 to 8 KiB; most of it
// is the environment.
const MaxSize = 256 << 10

var (
	launchID = regexp.MustCompile(`^lp-[0-9a-f]{6,10}$`)
	leaseID  = regexp.MustCompile(`^ls-[0-9a-f]{6,10}$`)
	hex256   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Encode returns the one canonical encoding of a valid manifest: compact JSON,
// fields in the order of the struct, environment sorted by name, UTC time.
// Text that JSON can't carry unchanged (invalid UTF-8) is refused.
func Encode(m messages.Manifest) ([]byte, error) {
	m.Expires = m.Expires.UTC().Round(0)
	if err := check(m); err != nil {
		return nil, err
	}
	b, err := marshal(m)
	if err != nil {
		return nil, malformed("it can't be encoded: %v", err)
	}
	if len(b) > MaxSize {
		return nil, malformed("it has %d bytes; at most %d are allowed", len(b), MaxSize)
	}
	var back messages.Manifest
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(m, back) {
		return nil, malformed("some text in it is not valid UTF-8")
	}
	return b, nil
}

// Decode reads what Encode wrote and nothing else: unknown and repeated
// fields, other spacing and trailing bytes are manifest_malformed, because
// decoding and encoding again must give the same bytes.
func Decode(b []byte) (messages.Manifest, error) {
	var m messages.Manifest
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return messages.Manifest{}, malformed("it can't be decoded: %v", err)
	}
	if again, err := marshal(m); err != nil || !bytes.Equal(again, b) {
		return messages.Manifest{}, malformed("it is not in canonical form")
	}
	if err := check(m); err != nil {
		return messages.Manifest{}, err
	}
	return m, nil
}

// Digest is the SHA-256 of an encoded manifest, in hex.
func Digest(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

func marshal(m messages.Manifest) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func malformed(format string, args ...any) *problem.Error {
	e := problem.New("manifest_malformed", format, args...)
	e.Message = "The launch manifest is refused: " + e.Message
	return e.WithHint("Start the agent again. If this repeats, the daemon and sophia-host are not from the same build.")
}

// check is the shape that a host may rely on.
func check(m messages.Manifest) error {
	switch {
	case m.Version != Version:
		return malformed("version %d, and only %d is understood", m.Version, Version)
	case !launchID.MatchString(m.Launch):
		return malformed("%q is not a launch id", m.Launch)
	case !leaseID.MatchString(m.Lease):
		return malformed("%q is not a lease id", m.Lease)
	case !hex256.MatchString(m.PlanDigest):
		return malformed("plan_digest is not a SHA-256 in hex")
	case len(m.Argv) == 0:
		return malformed("argv is empty")
	case m.Expires.IsZero():
		return malformed("it has no expiry")
	case m.Environment == nil:
		return malformed("it has no environment")
	case m.FastFailureMS < 0 || m.GraceMS < 0:
		return malformed("a duration is negative")
	}
	for name, f := range map[string]messages.FileIdentity{"host": m.Host, "harness": m.Harness, "wrapper": m.Wrapper, "launcher": m.Launcher} {
		if !cleanPath(f.Path) || !hex256.MatchString(f.SHA256) || f.Size <= 0 {
			return malformed("the identity of the %s is incomplete", name)
		}
	}
	for name, p := range map[string]string{"workspace": m.Workspace.Path, "overlay": m.Overlay, "terminal.socket": m.Terminal.Socket, "report_path": m.ReportPath} {
		if !cleanPath(p) {
			return malformed("%s %q is not a clean absolute path", name, p)
		}
	}
	for k, v := range m.Environment {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return malformed("%q can't be an environment variable", k)
		}
	}
	for _, a := range m.Argv {
		if strings.Contains(a, "\x00") {
			return malformed("an argument holds a NUL")
		}
	}
	t := m.Terminal
	switch {
	case !hex256.MatchString(t.TokenSHA256):
		return malformed("terminal.token_sha256 is not a SHA-256 in hex")
	case t.Rows == 0 || t.Cols == 0: // a 0×0 terminal breaks full-screen programs
		return malformed("the terminal has %d×%d cells", t.Cols, t.Rows)
	case t.Backlog <= 0 || t.Backlog > 64<<20:
		return malformed("a backlog of %d bytes is out of bounds", t.Backlog)
	}
	return nil
}

func cleanPath(p string) bool {
	return filepath.IsAbs(p) && filepath.Clean(p) == p && !strings.Contains(p, "\x00")
}
