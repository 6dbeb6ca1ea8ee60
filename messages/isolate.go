package messages

import "encoding/json"

// Run statuses and error kinds of execute_code (design 40-isolate, Result).
const (
	RunOK     = "ok"
	RunFailed = "error"

	KindSyntax   = "syntax"
	KindType     = "type"
	KindRuntime  = "runtime"
	KindTool     = "tool"
	KindTimeout  = "timeout"
	KindMemory   = "memory"
	KindBudget   = "budget"
	KindApproval = "approval"
	KindCrash    = "crash"
)

// RunRequest is one snippet to run.
type RunRequest struct {
	Connection string // conn-…; workers are shared fairly among connections
	Code       string
	TimeoutMS  int             // 0: the default of 10,000; at most 30,000
	Input      json.RawMessage // nil or JSON; `input` inside
	Methods    []Method        // what sophia.* offers inside, by reflection over the registry
}

// Method is one sophia.* method inside the isolate.
type Method struct {
	Name string // camelCase, e.g. queryKnowledge
	Tool string // canonical, e.g. sophia.query_knowledge
}

// RunResult has this shape on every ending, also on timeout, memory and kill.
type RunResult struct {
	Status          string          `json:"status"`
	Value           json.RawMessage `json:"value,omitempty"`
	Logs            []string        `json:"logs"`
	Calls           []RunCall       `json:"calls"`
	SophiaCalls     int             `json:"sophia_calls"`
	Pending         int             `json:"pending"` // calls still under way at the end, cancelled
	Error           *RunError       `json:"error,omitempty"`
	ExecutionTimeMS float64         `json:"execution_time_ms"`
	Memory          RunMemory       `json:"memory"`
	// TypeCheck is what the check before the run came to: passed, failed, skipped,
	// absent or off (actors/typecheck).
	TypeCheck string `json:"type_check" jsonschema:"passed, failed, skipped (could not be decided), absent (no compiler here) or off"`
}

// RunCall is one Sophia call of a run, as the daemon saw it.
type RunCall struct {
	Tool string  `json:"tool"`
	OK   bool    `json:"ok"`
	MS   float64 `json:"ms"`
	Code string  `json:"code,omitempty"` // of the error
}

// RunError says why a run did not return a value, and how to stay inside the limit.
type RunError struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name,omitempty"`
	Message string   `json:"message"`
	Line    int      `json:"line,omitempty"`   // 1-based, in the code as given
	Column  int      `json:"column,omitempty"` // 1-based
	Frame   string   `json:"frame,omitempty"`  // the text of that line
	Stack   []string `json:"stack,omitempty"`  // the snippet's own frames, innermost first: "name line:column"
	Hint    string   `json:"hint,omitempty"`
	Limit   string   `json:"limit,omitempty"`
	More    []string `json:"more,omitempty"` // further type errors: "line:column message"
}

// RunMemory is in bytes.
type RunMemory struct {
	HeapUsed  int64 `json:"heap_used"`
	HeapLimit int64 `json:"heap_limit"`
}
