package isolates

// queue orders waiting requests fairly among connections: next is the oldest
// request of the connection that has the fewest runs under way, and among equals
// of the one that was served longest ago. A connection never has more than share
// runs under way: one whose runs all wait for the owner must leave room for the
// others.
type queue[T any] struct {
	lines   map[string]*line[T]
	share   int
	waiting int
	turn    uint64
}

type line[T any] struct {
	items   []T
	running int
	served  uint64 // turn
	since   uint64 // turn in which it was first seen, for a stable order
}

func (q *queue[T]) of(connection string) *line[T] {
	if q.lines == nil {
		q.lines = map[string]*line[T]{}
	}
	l := q.lines[connection]
	if l == nil {
		q.turn++
		l = &line[T]{since: q.turn}
		q.lines[connection] = l
	}
	return l
}

// push reports false when the connection already has max requests waiting.
func (q *queue[T]) push(connection string, item T, max int) bool {
	l := q.of(connection)
	if len(l.items) >= max {
		return false
	}
	l.items = append(l.items, item)
	q.waiting++
	return true
}

// due is how many requests could be served now, were there workers enough.
func (q *queue[T]) due() (n int) {
	for _, l := range q.lines {
		n += max(0, min(len(l.items), q.share-l.running))
	}
	return n
}

// pop takes the next request and counts it as running.
func (q *queue[T]) pop() (connection string, item T, ok bool) {
	var best *line[T]
	for c, l := range q.lines {
		if len(l.items) > 0 && l.running < q.share && (best == nil || l.before(best)) {
			best, connection = l, c
		}
	}
	if best == nil {
		return "", item, false
	}
	item = best.items[0]
	best.items = best.items[1:]
	best.running++
	q.turn++
	best.served = q.turn
	q.waiting--
	return connection, item, true
}

func (l *line[T]) before(o *line[T]) bool {
	switch {
	case l.running != o.running:
		return l.running < o.running
	case l.served != o.served:
		return l.served < o.served
	}
	return l.since < o.since
}

// done counts a run of the connection as over.
func (q *queue[T]) done(connection string) {
	l := q.lines[connection]
	if l == nil {
		return
	}
	l.running--
	if l.running <= 0 && len(l.items) == 0 {
		delete(q.lines, connection) // an idle connection costs nothing
	}
}

// drain takes all that wait.
func (q *queue[T]) drain() []T {
	var all []T
	for c, l := range q.lines {
		all = append(all, l.items...)
		l.items = nil
		if l.running <= 0 {
			delete(q.lines, c)
		}
	}
	q.waiting = 0
	return all
}
