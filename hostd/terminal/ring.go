package terminal

// ring holds the newest limit bytes. It grows to its limit as it is filled.
type ring struct {
	buf   []byte
	start int
	n     int
	limit int
}

func (r *ring) len() int { return r.n }

// append adds p, for which there must be room.
func (r *ring) append(p []byte) {
	if r.n+len(p) > cap(r.buf) {
		r.grow(r.n + len(p))
	}
	r.buf = r.buf[:cap(r.buf)]
	for len(p) > 0 {
		at := (r.start + r.n) % len(r.buf)
		k := copy(r.buf[at:], p)
		r.n += k
		p = p[k:]
	}
}

func (r *ring) grow(n int) {
	buf := make([]byte, 0, min(max(2*cap(r.buf), n), max(r.limit, n)))
	r.each(func(p []byte) { buf = append(buf, p...) })
	r.buf, r.start = buf, 0
}

// drop removes the oldest k bytes and shows them to f.
func (r *ring) drop(k int, f func([]byte)) {
	for k > 0 {
		first := r.first()
		first = first[:min(k, len(first))]
		f(first)
		r.start = (r.start + len(first)) % cap(r.buf)
		r.n -= len(first)
		k -= len(first)
	}
}

// first is the first run of bytes that lie together.
func (r *ring) first() []byte {
	buf := r.buf[:cap(r.buf)]
	return buf[r.start:min(r.start+r.n, len(buf))]
}

// each shows all bytes in order, in at most two runs.
func (r *ring) each(f func([]byte)) {
	if r.n == 0 {
		return
	}
	a := r.first()
	f(a)
	if rest := r.n - len(a); rest > 0 {
		f(r.buf[:cap(r.buf)][:rest])
	}
}
