package wire

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
