package approvals

import (
	"cmp"
	"slices"
	"sync"

	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
)

// keptVerdicts is how many answers are remembered to tell a late one what was
// decided. Older ones are in the store.
const keptVerdicts = 1024

// index says what is open and what became of the last requests. It decides
// nothing: the request's actor does.
type index struct {
	mu       sync.Mutex
	max      int
	reserved map[place]int
	waiting  map[string]asking
	verdicts map[string]messages.ApprovalVerdict
	order    []string // of the verdicts, a ring once it is full
	next     int
}

// asking is a request that was put before the owner, and the actor that takes
// the answer.
type asking struct {
	messages.ApprovalRequest
	ref *supervise.Ref
}

func newIndex(maxOpen int) *index {
	if maxOpen <= 0 {
		maxOpen = DefaultMaxOpen
	}
	return &index{
		max:      maxOpen,
		reserved: map[place]int{},
		waiting:  map[string]asking{},
		verdicts: map[string]messages.ApprovalVerdict{},
	}
}

// place is what requests are counted for.
type place struct{ connection, terminal string }

// reserve takes one of the places; release gives it back.
func (x *index) reserve(r messages.ApprovalRequest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := place{r.Connection, r.Terminal}
	if x.reserved[at] >= x.max {
		who := "connection"
		if r.Terminal != "" {
			who = "terminal"
		}
		return problem.New("too_many_approvals", "%d requests of this %s wait for the owner already", x.max, who).
			WithHint("Wait for the answers before asking for more.")
	}
	x.reserved[at]++
	return nil
}

func (x *index) release(r messages.ApprovalRequest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := place{r.Connection, r.Terminal}
	if x.reserved[at]--; x.reserved[at] <= 0 {
		delete(x.reserved, at)
	}
}

// open says whether the request is new and not closed already.
func (x *index) open(r messages.ApprovalRequest, ref *supervise.Ref) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, done := x.verdicts[r.ID]; done {
		return false
	}
	x.waiting[r.ID] = asking{r, ref}
	return true
}

// taker is who takes the answer to a request that waits, or nil.
func (x *index) taker(id string) *supervise.Ref {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waiting[id].ref
}

// close says whether this is the first verdict of the request.
func (x *index) close(v messages.ApprovalVerdict) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, done := x.verdicts[v.ID]; done {
		return false
	}
	delete(x.waiting, v.ID)
	x.verdicts[v.ID] = v
	if len(x.order) < keptVerdicts {
		x.order = append(x.order, v.ID)
		return true
	}
	delete(x.verdicts, x.order[x.next])
	x.order[x.next] = v.ID
	x.next = (x.next + 1) % keptVerdicts
	return true
}

func (x *index) verdict(id string) (messages.ApprovalVerdict, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v, ok := x.verdicts[id]
	return v, ok
}

func (x *index) list() []messages.ApprovalRequest {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]messages.ApprovalRequest, 0, len(x.waiting))
	for _, w := range x.waiting {
		out = append(out, w.ApprovalRequest)
	}
	slices.SortFunc(out, func(a, b messages.ApprovalRequest) int {
		return cmp.Or(a.Requested.Compare(b.Requested), cmp.Compare(a.ID, b.ID))
	})
	return out
}
