package supervise

import (
	"fmt"
	"time"
)

// Event is one of Started, Exited, Restarting, GaveUp, Abandoned, DeadLetter
// and Full. Path is the ID of the tree and those of its descendants, joined by
// "/". Gen numbers the lives of the whole tree in the order of their starts.
type Event interface {
	fmt.Stringer
	event()
}

// Started: the child handled its Started; or, for a tree, all its children did.
type Started struct {
	Path string
	Gen  uint64
}

// Exited: the life is over, with its Stopped handled and its work ended.
type Exited struct {
	Path   string
	Gen    uint64
	Reason error // nil is normal, ErrShutdown is the tree's wish
	Late   bool  // it had been abandoned before
}

// Restarting: the tree restarts Child, and whom its strategy adds, after Delay.
type Restarting struct {
	Path    string // the child that failed
	Attempt int    // failures within the window, this one included
	Delay   time.Duration
	Reason  error
}

// GaveUp: too many restarts; the tree stops its children and ends.
type GaveUp struct {
	Path   string // the tree
	Reason *GaveUpError
}

// Abandoned: the child outlived its grace and kill times and is left behind.
type Abandoned struct {
	Path string
	Gen  uint64
}

// DeadLetter: accepted but never handled. When the queue itself was lost
// (runtime.Goexit, abandonment), Msg is nil and Count says how many.
type DeadLetter struct {
	Path  string
	Gen   uint64
	Msg   any
	Count int
}

// Full: Send returned ErrFull. It is reported for the 1st, 2nd, 4th, 8th … refusal.
type Full struct {
	Path    string
	Gen     uint64
	Limit   int
	Refused uint64 // refusals in this life
}

func (Started) event()    {}
func (Exited) event()     {}
func (Restarting) event() {}
func (GaveUp) event()     {}
func (Abandoned) event()  {}
func (DeadLetter) event() {}
func (Full) event()       {}

func (e Started) String() string { return fmt.Sprintf("started %s#%d", e.Path, e.Gen) }

func (e Exited) String() string {
	late := ""
	if e.Late {
		late = " (late)"
	}
	return fmt.Sprintf("exited %s#%d: %v%s", e.Path, e.Gen, reasonOf(e.Reason), late)
}

func (e Restarting) String() string {
	return fmt.Sprintf("restarting after %s, attempt %d, in %v", e.Path, e.Attempt, e.Delay)
}

func (e GaveUp) String() string    { return e.Reason.Error() }
func (e Abandoned) String() string { return fmt.Sprintf("abandoned %s#%d", e.Path, e.Gen) }

func (e DeadLetter) String() string {
	if e.Msg == nil {
		return fmt.Sprintf("dead letters of %s#%d: %d", e.Path, e.Gen, e.Count)
	}
	return fmt.Sprintf("dead letter of %s#%d: %T", e.Path, e.Gen, e.Msg)
}

func (e Full) String() string {
	return fmt.Sprintf("full %s#%d: limit %d, refused %d", e.Path, e.Gen, e.Limit, e.Refused)
}
