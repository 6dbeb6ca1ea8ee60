package registry

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"sophia/mcp/schema"
	"sophia/messages"
)

// InboxKey is the key that every response carries (spec mcp-surface).
const InboxKey = "_inbox_unread"

// Handler does a tool's work. In was checked against its schema and has its
// defaults. An error meant for the caller is a *problem.Error; of any other the
// caller learns nothing but that something failed.
type Handler[In, Out any] func(ctx context.Context, c *Call, in In) (Out, error)

// Preview says what a call would change, by a dry run, for the owner to see.
type Preview[In any] func(ctx context.Context, c *Call, in In) ([]messages.Change, error)

// Tool is one declared tool. Make it with Define.
type Tool struct {
	Spec
	Canonical string // sophia.query_knowledge
	Method    string // queryKnowledge
	Input     schema.Inferred
	Output    schema.Inferred // as the handler's type says, with every required key of a row
	RowKeys   []string        // of a list-returning tool; nil for others

	published *jsonschema.Schema // Output as tools/list shows it
	checker   *schema.Checker
	run       func(ctx context.Context, c *Call, args json.RawMessage) (json.RawMessage, error)
	preview   func(ctx context.Context, c *Call, args json.RawMessage) ([]messages.Change, error)
	err       error
	// fingerprint changes when what a caller can see of the tool does. It is made
	// once, when first asked for: writing schemas down is dear.
	fingerprint func() []byte
}

// Define makes a tool of a declaration. What is wrong with it is said by New,
// so that a constructor of tools needs no error.
func Define[In, Out any](s Spec, h Handler[In, Out], preview ...Preview[In]) Tool {
	t := Tool{Spec: s, Canonical: Prefix + s.Name, Method: Camel(s.Name)}
	if t.Title == "" {
		t.Title = title(s.Name)
	}
	t.fingerprint = sync.OnceValue(func() []byte {
		h := sha256.New()
		in, _ := json.Marshal(t.Input.Schema)
		out, _ := json.Marshal(t.Output.Schema)
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%s\x00%t\x00%t\n", t.Canonical, t.Summary, t.Description, in, out, t.ReadOnly(), t.Effects.Elevated)
		return h.Sum(nil)
	})
	t.err = t.prepare(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	t.run = func(ctx context.Context, c *Call, args json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := t.checker.Decode(args, &in); err != nil {
			return nil, err
		}
		p, err := t.projectionOf(args)
		if err != nil {
			return nil, err
		}
		out, err := h(ctx, c, in)
		if err != nil {
			return nil, err
		}
		body, err := schema.Encode(&out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Canonical, err)
		}
		return p.apply(body)
	}
	if len(preview) > 0 {
		t.preview = func(ctx context.Context, c *Call, args json.RawMessage) ([]messages.Change, error) {
			var in In
			if err := t.checker.Decode(args, &in); err != nil {
				return nil, err
			}
			return preview[0](ctx, c, in)
		}
	}
	return t
}

// Run calls the handler and cuts the result to the asked-for keys. It decides
// nothing about who may call: that is mcp/dispatch.
func (t *Tool) Run(ctx context.Context, c *Call, args json.RawMessage) (json.RawMessage, error) {
	return t.run(ctx, c, args)
}

// Check checks arguments as Run does, without calling the handler.
func (t *Tool) Check(args json.RawMessage) error {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err := t.checker.Check(args); err != nil {
		return err
	}
	_, err := t.projectionOf(args)
	return err
}

// Preview is what a call would change; nil where the tool has no preview.
func (t *Tool) Preview(ctx context.Context, c *Call, args json.RawMessage) ([]messages.Change, error) {
	if t.preview == nil {
		return nil, nil
	}
	return t.preview(ctx, c, args)
}

// ReadOnly says that a call changes nothing.
func (t *Tool) ReadOnly() bool {
	return len(t.Effects.Writes) == 0 && len(t.Effects.Traffic) == 0 && !t.Effects.Composes
}

// List says that the tool returns the uniform list envelope.
func (t *Tool) List() bool { return t.RowKeys != nil }

var (
	validName  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	errNoSpec  = errors.New("needs a group, a summary and a description")
	notMethods = []string{"then", "constructor", "toString", "valueOf", "toJSON"} // what JavaScript itself looks up
)

func (t *Tool) prepare(in, out reflect.Type) error {
	switch {
	case !validName.MatchString(t.Name):
		return fmt.Errorf("the name %q is not lower_snake_case", t.Name)
	case slices.Contains(notMethods, t.Method):
		return fmt.Errorf("the method name %s means something else in JavaScript", t.Method)
	case t.Group == "" || t.Summary == "" || t.Description == "":
		return errNoSpec
	case !slices.Contains(Groups(), t.Group):
		return fmt.Errorf("there is no group %q", t.Group)
	case t.Effects.Elevated && len(t.Effects.Writes) == 0:
		return errors.New("is elevated but writes nothing")
	case strings.HasPrefix(string(t.Group), "mutate_") && len(t.Effects.Writes) == 0:
		return errors.New("is in a mutate group but declares no write")
	case strings.HasPrefix(string(t.Group), "read_") && !t.ReadOnly():
		return errors.New("is in a read group but is not read-only")
	case t.Destructive && t.ReadOnly():
		return errors.New("is destructive but writes nothing")
	}
	var err error
	if t.Input, err = schema.Of(in); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if t.Output, err = schema.Of(out); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if t.Output.Schema.Properties[InboxKey] != nil {
		return fmt.Errorf("output: %s is spliced in, not declared", InboxKey)
	}
	for key, kind := range errorShape {
		if p := t.Output.Schema.Properties[key]; p != nil && p.Type != kind {
			return fmt.Errorf("output: %s must be of type %s, as in an error", key, kind)
		}
	}
	if err := t.prepareList(); err != nil {
		return err
	}
	if t.checker, err = schema.NewChecker(t.Input.Schema); err != nil {
		return err
	}
	t.publish()
	return nil
}

// publish makes the output schema as clients see it: with the inbox count, with
// no key of a row required, since compact and fields leave some out, and wide
// enough for an error result. Clients made with the official TypeScript SDK
// (1.32.2) check a result against this schema even when isError is set, and
// hide the error from the model when it doesn't fit.
func (t *Tool) publish() {
	p := t.Output.Schema.CloneSchemas()
	if t.List() {
		p.Properties["items"].Items.Required = nil
	}
	if p.Properties == nil {
		p.Properties = map[string]*jsonschema.Schema{}
	}
	if len(p.Required) > 0 {
		p.AnyOf = []*jsonschema.Schema{{Required: p.Required}, {Required: []string{"code", "message"}}}
	}
	p.AdditionalProperties = nil
	p.Properties[InboxKey] = &jsonschema.Schema{Type: "integer", Description: "posts waiting for you: read_inbox"}
	p.PropertyOrder = append(slices.Clone(p.PropertyOrder), InboxKey)
	p.Required = []string{InboxKey}
	t.published = p
}

// errorShape are the keys of an error result. A tool's own keys of these names
// must have the same types, see publish.
var errorShape = map[string]string{"code": "string", "message": "string", "hint": "string", "valid": "array"}

// PublishedOutput is the output schema as tools/list shows it.
func (t *Tool) PublishedOutput() *jsonschema.Schema { return t.published }

func title(name string) string {
	s := strings.ReplaceAll(name, "_", " ")
	return strings.ToUpper(s[:1]) + s[1:]
}
