// Package schema turns Go types into JSON schemas (2020-12) and checks
// arguments against them.
//
// Inference is google/jsonschema-go's. What it leaves out is added from field
// tags, so that a tool's type is the only place where its rules are written:
//
//	jsonschema:"text"   description
//	enum:"a,b,c"        the accepted values
//	default:"10"        JSON, or a bare word for a string
//	min:"1" max:"100"   bounds of a number, or of a list's or string's length
//	format:"date"       a format name
//
// Optional and nullable are two things here: omitempty makes a field optional,
// a pointer without omitempty makes it nullable, and lists are never null.
//
// Imports: messages/problem and the standard library beside jsonschema-go.
package schema
