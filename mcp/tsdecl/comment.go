package tsdecl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// comment is a JSDoc comment: the text, and what a type can't say of s.
func comment(text string, s *jsonschema.Schema) string {
	var lines []string
	if text = strings.TrimSpace(text); text != "" {
		lines = strings.Split(text, "\n")
	}
	if s != nil {
		lines = append(lines, facts(s)...)
	}
	if len(lines) == 0 {
		return ""
	}
	for i, l := range lines {
		l = strings.ReplaceAll(l, "*/", `*\/`)
		lines[i] = strings.TrimRight(strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == '\u2028' || r == '\u2029' {
				return ' '
			}
			return r
		}, l), " ")
	}
	if len(lines) == 1 {
		return "/** " + lines[0] + " */\n"
	}
	return "/**\n * " + strings.Join(lines, "\n * ") + "\n */\n"
}

func facts(s *jsonschema.Schema) []string {
	var out []string
	add := func(tag, value string) { out = append(out, "@"+tag+" "+value) }
	for _, o := range append(slices.Clone(s.OneOf), s.AnyOf...) { // values that are described one by one
		if o.Const != nil && o.Description != "" {
			out = append(out, "- "+literal(*o.Const)+": "+strings.ReplaceAll(o.Description, "\n", " "))
		}
	}
	if s.Default != nil {
		add("default", string(s.Default))
	}
	if s.Format != "" {
		add("format", s.Format)
	}
	if s.Type == "integer" {
		out = append(out, "@integer")
	}
	for _, f := range []struct {
		tag string
		v   *float64
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"exclusiveMinimum", s.ExclusiveMinimum}, {"exclusiveMaximum", s.ExclusiveMaximum}, {"multipleOf", s.MultipleOf}} {
		if f.v != nil {
			add(f.tag, fmt.Sprint(*f.v))
		}
	}
	for _, f := range []struct {
		tag string
		v   *int
	}{{"minLength", s.MinLength}, {"maxLength", s.MaxLength}, {"minItems", s.MinItems}, {"maxItems", s.MaxItems}} {
		if f.v != nil {
			add(f.tag, fmt.Sprint(*f.v))
		}
	}
	if s.Pattern != "" {
		add("pattern", s.Pattern)
	}
	if s.Deprecated {
		out = append(out, "@deprecated")
	}
	return out
}
