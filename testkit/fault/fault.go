package fault

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"sophia/actors/supervise"
)

// ErrKilled is the value that a killed actor panics with.
var ErrKilled = errors.New("fault: killed")

// Delivery is one message on its way into an actor. N counts within the life:
// 1 is Initialized, 2 is Started, and Stopped is the last.
type Delivery struct {
	Path string
	Gen  uint64
	N    uint64
	Msg  any
}

// Rule says what happens to a delivery; the zero Fault passes it on to the next
// rule.
type Rule func(Delivery) supervise.Fault

// Injector applies rules, first match first. It is safe for concurrent use.
type Injector struct {
	mu    sync.Mutex
	rules []Rule
	seen  []Delivery
}

// New returns an injector with these rules.
func New(rules ...Rule) *Injector { return &Injector{rules: rules} }

// Add appends rules.
func (f *Injector) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, rules...)
}

// Seen returns what was about to be delivered so far, in order per actor.
func (f *Injector) Seen() []Delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Delivery(nil), f.seen...)
}

// Intercept is the hook for supervise.Policy.
func (f *Injector) Intercept(path string, gen, n uint64, msg any) supervise.Fault {
	if _, ok := msg.(die); ok {
		return supervise.Fault{Do: supervise.Panic, Value: ErrKilled}
	}
	d := Delivery{Path: path, Gen: gen, N: n, Msg: msg}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, d)
	for _, r := range f.rules {
		if fault := r(d); fault.Do != supervise.Pass {
			return fault
		}
	}
	return supervise.Fault{}
}

// die is the message that kills.
type die struct{}

// Kill crashes the current life of a descendant as soon as it has handled what
// is queued before. id is as for Tree.Ref.
func (f *Injector) Kill(t *supervise.Tree, id string) error {
	r := t.Ref(id)
	if r == nil {
		return fmt.Errorf("fault: %s has no %s: %w", t.Path(), id, supervise.ErrUnknown)
	}
	return r.Send(die{})
}

// At does fault to the n-th delivery of each life whose path matches the
// pattern, which is path.Match's: "root/launches/*/lease".
func At(pattern string, n uint64, fault supervise.Fault) Rule {
	match := matcher(pattern)
	return func(d Delivery) supervise.Fault {
		if d.N == n && match(d.Path) {
			return fault
		}
		return supervise.Fault{}
	}
}

// Once does fault to the n-th delivery of the first life whose path matches, and
// to no other.
func Once(pattern string, n uint64, fault supervise.Fault) Rule {
	rule, done := At(pattern, n, fault), false
	return func(d Delivery) supervise.Fault { // under the injector's lock
		if done {
			return supervise.Fault{}
		}
		f := rule(d)
		done = f.Do != supervise.Pass
		return f
	}
}

// On does fault to each message of type M whose actor's path matches.
func On[M any](pattern string, fault supervise.Fault) Rule {
	match := matcher(pattern)
	return func(d Delivery) supervise.Fault {
		if _, ok := d.Msg.(M); ok && match(d.Path) {
			return fault
		}
		return supervise.Fault{}
	}
}

func matcher(pattern string) func(string) bool {
	if _, err := path.Match(pattern, ""); err != nil {
		panic(fmt.Sprintf("fault: the pattern %q: %v", pattern, err))
	}
	return func(p string) bool {
		ok, err := path.Match(pattern, p)
		return ok && err == nil
	}
}
