package ownercli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// SetJSON sets the member at path in a JSON object, makes the objects on the
// way, and leaves every other byte as it is: configuration files are written by
// people. Empty input is an empty object.
func SetJSON(text []byte, path []string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	if !json.Valid(text) {
		return nil, errors.New("it is no well-formed JSON")
	}
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	return setMember(text, start, path, value, "")
}

// setMember works on the object that begins at start; indent is that of the
// line it begins on.
func setMember(text []byte, start int, path []string, value any, indent string) ([]byte, error) {
	o, err := readObject(text, start)
	if err != nil {
		return nil, err
	}
	inner := indent + "  "
	if len(o.members) > 0 {
		if own, multiline := lineIndent(text, o.members[0].keyStart); multiline {
			inner = own
		}
	}
	found := -1
	for i, m := range o.members {
		if m.key == path[0] {
			if found >= 0 {
				return nil, fmt.Errorf("it names %q twice", m.key)
			}
			found = i
		}
	}
	if found >= 0 && len(path) > 1 {
		return setMember(text, o.members[found].valueStart, path[1:], value, inner)
	}
	for i := len(path) - 1; i > 0; i-- {
		value = map[string]any{path[i]: value}
	}
	written, err := json.MarshalIndent(value, inner, "  ")
	if err != nil {
		return nil, err
	}
	if found >= 0 {
		m := o.members[found]
		return splice(text, m.valueStart, m.valueEnd, written), nil
	}
	key, err := json.Marshal(path[0])
	if err != nil {
		return nil, err
	}
	member := "\n" + inner + string(key) + ": " + string(written)
	if len(o.members) == 0 {
		return splice(text, start, o.end, []byte("{"+member+"\n"+indent+"}")), nil
	}
	last := o.members[len(o.members)-1].valueEnd
	return splice(text, last, last, []byte(","+member)), nil
}

// RemoveJSON removes the member at path from a JSON object and leaves every
// other byte as it is, but for the comma. A member that is not there is no
// error.
func RemoveJSON(text []byte, path []string) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("it is no well-formed JSON")
	}
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	for {
		o, err := readObject(text, start)
		if err != nil {
			return nil, err
		}
		found := -1
		for i, m := range o.members {
			if m.key == path[0] {
				if found >= 0 {
					return nil, fmt.Errorf("it names %q twice", m.key)
				}
				found = i
			}
		}
		switch {
		case found < 0:
			return text, nil
		case len(path) > 1:
			start, path = o.members[found].valueStart, path[1:]
		case len(o.members) == 1:
			return splice(text, start, o.end, []byte("{}")), nil
		case found == 0:
			return splice(text, o.members[0].keyStart, o.members[1].keyStart, nil), nil
		default:
			return splice(text, o.members[found-1].valueEnd, o.members[found].valueEnd, nil), nil
		}
	}
}

func splice(text []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

type objectSpan struct {
	members []memberSpan
	end     int // after the closing brace
}

type memberSpan struct {
	key                            string
	keyStart, valueStart, valueEnd int
}

func readObject(text []byte, start int) (objectSpan, error) {
	var o objectSpan
	d := json.NewDecoder(bytes.NewReader(text[start:]))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return o, errors.New("where an object belongs is something else")
	}
	for d.More() {
		before := start + int(d.InputOffset())
		token, err := d.Token()
		if err != nil {
			return o, err
		}
		key, ok := token.(string)
		if !ok {
			return o, errors.New("an object's key is no string")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return o, err
		}
		end := start + int(d.InputOffset())
		o.members = append(o.members, memberSpan{
			key: key, keyStart: before + bytes.IndexByte(text[before:], '"'), valueStart: end - len(value), valueEnd: end,
		})
	}
	if _, err := d.Token(); err != nil {
		return o, err
	}
	o.end = start + int(d.InputOffset())
	return o, nil
}

// lineIndent is the white space before at, when nothing else is on the line.
func lineIndent(text []byte, at int) (indent string, alone bool) {
	begin := bytes.LastIndexByte(text[:at], '\n') + 1
	indent = string(text[begin:at])
	return indent, begin > 0 && strings.TrimSpace(indent) == ""
}
