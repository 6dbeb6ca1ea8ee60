package supervise

import "context"

// Lookup is an address that survives restarts: each use finds the life that is
// current then. Between two lives it answers ErrDown.
type Lookup struct {
	tree *Tree
	id   string
}

// Lookup returns the address of a descendant, which need not exist yet. id is as
// for Ref.
func (t *Tree) Lookup(id string) Lookup { return Lookup{t, id} }

// Ref returns the current life, or nil.
func (l Lookup) Ref() *Ref { return l.tree.Ref(l.id) }

// Send is Ref.Send to the current life.
func (l Lookup) Send(msg any) error {
	if r := l.Ref(); r != nil {
		return r.Send(msg)
	}
	return ErrDown
}

// Ask is Ref.Ask to the current life. A request that failed with ErrDown is not
// repeated: the life that is gone may have acted upon it.
func (l Lookup) Ask(ctx context.Context, msg any) (any, error) {
	if r := l.Ref(); r != nil {
		return r.Ask(ctx, msg)
	}
	return nil, ErrDown
}
