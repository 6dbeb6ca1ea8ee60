package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"sophia/messages/problem"
)

// CallDigest is what the approval of a tool call is bound to: the SHA-256, in
// hex, over the tool's canonical name, its arguments in canonical form, and the
// connection, each preceded by its length so that no two calls run together.
// Arguments that are not exactly one JSON value are refused.
func CallDigest(tool string, arguments json.RawMessage, connection string) (string, error) {
	canonical, err := Canonical(arguments)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	io.WriteString(h, "sophia approval 1\n")
	for _, part := range []string{tool, string(canonical), connection} {
		io.WriteString(h, strconv.Itoa(len(part))+":"+part+"\n")
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Canonical writes a JSON value in one way: no spaces, object keys in byte
// order, strings as Go escapes them, numbers in the spelling they came in. An
// object that names a key twice is refused, because its readers may differ on
// which one counts. Empty input is null.
func Canonical(value json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(value)) == 0 {
		return []byte("null"), nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(d, &out, 0); err != nil {
		return nil, problem.Wrap(err, "malformed_arguments", "the arguments are not one well-formed JSON value")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, problem.New("malformed_arguments", "the arguments are more than one JSON value")
	}
	return out.Bytes(), nil
}

// maxDepth keeps a hostile value from growing the stack.
const maxDepth = 1000

func canonicalValue(d *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > maxDepth {
		return errors.New("nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return canonicalArray(d, out, depth)
		}
		return canonicalObject(d, out, depth)
	case json.Number:
		out.WriteString(t.String())
	default: // string, bool, nil
		text, err := json.Marshal(t)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	return nil
}

func canonicalArray(d *json.Decoder, out *bytes.Buffer, depth int) error {
	out.WriteByte('[')
	for first := true; d.More(); first = false {
		if !first {
			out.WriteByte(',')
		}
		if err := canonicalValue(d, out, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	_, err := d.Token()
	return err
}

func canonicalObject(d *json.Decoder, out *bytes.Buffer, depth int) error {
	type member struct{ key, value string }
	var members []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value bytes.Buffer
		if err := canonicalValue(d, &value, depth+1); err != nil {
			return err
		}
		members = append(members, member{key.(string), value.String()})
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].key == m.key {
				return errors.New("an object names a key twice: " + strconv.Quote(m.key))
			}
			out.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return err
		}
		out.Write(key)
		out.WriteByte(':')
		out.WriteString(m.value)
	}
	out.WriteByte('}')
	return nil
}
