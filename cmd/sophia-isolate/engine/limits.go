package engine

import (
	"fmt"

	"sophia/messages"
)

// What a snippet may use of the worker. Time and the number of calls are
// counted by the daemon too, which trusts none of these.
const (
	Calls         = 50
	Timers        = 64
	TimerMS       = 30_000
	ArgumentBytes = 1 << 20
	ValueBytes    = 100_000
	LogLines      = 200
	LogBytes      = 32 << 10
	LogLine       = 2_000 // characters
)

type numbers struct {
	Calls         int    `json:"calls"`
	Budget        string `json:"budget"`
	Timers        int    `json:"timers"`
	TimerMS       int    `json:"timerMS"`
	ArgumentBytes int    `json:"argumentBytes"`
	ValueBytes    int    `json:"valueBytes"`
	LogLines      int    `json:"logLines"`
	LogBytes      int    `json:"logBytes"`
	LogLine       int    `json:"logLine"`
	Memory        string `json:"memory"`
	MemoryHint    string `json:"memoryHint"`
}

func limits() numbers {
	m := OutOfMemory()
	return numbers{Calls, fmt.Sprintf("%d Sophia calls", Calls), Timers, TimerMS, ArgumentBytes, ValueBytes, LogLines, LogBytes, LogLine, m.Limit, m.Hint}
}

// OutOfMemory is how a run ends that came to the heap's limit.
func OutOfMemory() *messages.RunError {
	return &messages.RunError{
		Kind: messages.KindMemory, Name: "OutOfMemory",
		Message: "The run used up its memory",
		Limit:   fmt.Sprintf("%d MB heap", HeapLimit>>20),
		Hint:    "Ask for fewer rows or fields per call (limit, compact, fields), and keep only what you need of each result.",
	}
}
