package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"sophia/mcp/nearest"
	"sophia/messages/problem"
)

// CodeUnknownField is the code of the error that lists a tool's valid fields.
const CodeUnknownField = "unknown_field"

// prepareList finds out whether the tool returns rows and, if so, gives it the
// arguments compact and fields.
func (t *Tool) prepareList() error {
	items := t.Output.Schema.Properties["items"]
	if items == nil || items.Items == nil || items.Items.Properties == nil {
		if len(t.Compact) > 0 {
			return errors.New("has compact keys but returns no items")
		}
		return nil
	}
	if t.Output.Schema.Properties["total"] == nil {
		return errors.New("returns items without a total")
	}
	t.RowKeys = slices.Clone(items.Items.PropertyOrder)
	if len(t.Compact) == 0 {
		return errors.New("returns items but names no compact keys")
	}
	for _, k := range t.Compact {
		if !slices.Contains(t.RowKeys, k) {
			return fmt.Errorf("the compact key %q is not a key of its rows", k)
		}
	}
	in := t.Input.Schema
	if in.Properties == nil {
		in.Properties = map[string]*jsonschema.Schema{}
	}
	if in.Properties["compact"] != nil || in.Properties["fields"] != nil {
		return errors.New("declares compact or fields itself; they are added to every list")
	}
	in.Properties["compact"] = &jsonschema.Schema{Type: "boolean", Description: "only the most useful keys of each item"}
	in.Properties["fields"] = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"},
		Description: "only these keys of each item"}
	in.PropertyOrder = append(slices.Clone(in.PropertyOrder), "compact", "fields")
	return nil
}

// projection is the keys to keep of each row; nil keeps all.
type projection []string

func (t *Tool) projectionOf(args json.RawMessage) (projection, error) {
	if !t.List() || !bytes.Contains(args, []byte(`"compact"`)) && !bytes.Contains(args, []byte(`"fields"`)) {
		return nil, nil
	}
	var asked struct {
		Compact bool     `json:"compact"`
		Fields  []string `json:"fields"`
	}
	if err := json.Unmarshal(args, &asked); err != nil {
		return nil, err
	}
	for _, f := range asked.Fields {
		if slices.Contains(t.RowKeys, f) {
			continue
		}
		e := problem.New(CodeUnknownField, "the items of %s have no field %s", t.Canonical, f).WithValid(t.RowKeys...)
		if near := nearest.Names(f, t.RowKeys); len(near) > 0 {
			return nil, e.WithHint("Did you mean %s?", near[0])
		}
		return nil, e.WithHint("Use the valid fields, or compact: true.")
	}
	switch {
	case len(asked.Fields) > 0:
		return asked.Fields, nil
	case asked.Compact:
		return t.Compact, nil
	}
	return nil, nil
}

// apply cuts each of body's items to the keys of p, in p's order.
func (p projection) apply(body json.RawMessage) (json.RawMessage, error) {
	if p == nil {
		return body, nil
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, err
	}
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(whole["items"], &rows); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('{')
		first := true
		for _, key := range p {
			v, ok := row[key]
			if !ok {
				continue // an optional key that this row doesn't have
			}
			delete(row, key) // a key named twice is written once
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(&b, "%q:%s", key, v)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	whole["items"] = b.Bytes()
	return marshalPlain(whole)
}

func marshalPlain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
