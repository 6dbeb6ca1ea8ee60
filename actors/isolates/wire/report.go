package wire

import (
	"encoding/json"
	"io"
)

// Memory is how many bytes of data a process may take on top of what it has when
// it is locked down: what escapes V8's own heap limit (array buffers, flattened
// strings) lives in it, and all that the compiler does.
const Memory = 64 << 20

// Report is what a worker says about itself when it is ready.
type Report struct {
	HeapLimit int64   `json:"heap_limit"` // bytes
	Engine    string  `json:"engine"`     // V8's version
	Layers    []Layer `json:"layers"`
}

// Layer is one layer of the worker's lockdown, after it was applied and tried.
type Layer struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail,omitempty"` // why it is off, or how much of it is on
}

// Missing are the layers that are off, each with why.
func (r Report) Missing() []string {
	var out []string
	for _, l := range r.Layers {
		if !l.On {
			out = append(out, l.Name+" ("+l.Detail+")")
		}
	}
	return out
}

// SayReady is the first thing that a process says.
func SayReady(w io.Writer, r Report) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return Write(w, Frame{Kind: Ready, Payload: b})
}
