package terminal

import "sophia/hostd/terminal/vt"

// piece is a part of the stream that begins where the stream may be cut, with
// the modes that are in force there.
type piece struct {
	at   *vt.Tracker
	data []byte
}

// pieces keep the newest output. The oldest piece is dropped whole, so that
// nothing has to be read twice to know the modes where the rest begins.
type pieces struct {
	list  []piece
	n     int // bytes in all
	limit int
	size  int    // a piece ends at the first cut after so many bytes
	lost  bool   // in a sequence that is longer than the limit: nothing is kept
	spare []byte // of the last piece dropped
}

func newPieces(limit int) pieces {
	return pieces{limit: limit, size: min(max(limit/64, 256), 4<<10)}
}

// write reads p with now, which follows the whole stream, and keeps it.
func (r *pieces) write(p []byte, now *vt.Tracker) {
	if len(r.list) == 0 && !r.lost {
		r.begin(now)
	}
	for len(p) > 0 {
		n, cut := 0, false
		switch last := r.last(); {
		case r.lost:
			n, cut = now.WriteToCut(p, true)
		case len(last) < r.size:
			n = min(len(p), r.size-len(last))
			now.Write(p[:n])
			r.append(p[:n])
		default: // a synchronized update is kept whole while it is short enough
			n, cut = now.WriteToCut(p[:min(len(p), r.size)], len(last) > r.limit/2)
			r.append(p[:n])
		}
		p = p[n:]
		if cut {
			r.lost = false
			r.begin(now)
		}
	}
}

func (r *pieces) last() []byte {
	if len(r.list) == 0 {
		return nil
	}
	return r.list[len(r.list)-1].data
}

func (r *pieces) begin(now *vt.Tracker) {
	data := r.spare[:0]
	r.spare = nil
	r.list = append(r.list, piece{now.Clone(), data})
}

func (r *pieces) append(p []byte) {
	last := &r.list[len(r.list)-1]
	last.data = append(last.data, p...)
	for r.n += len(p); r.n > r.limit; {
		first := r.list[0]
		r.n -= len(first.data)
		r.spare = first.data
		copy(r.list, r.list[1:])
		r.list = r.list[:len(r.list)-1]
		if len(r.list) == 0 {
			r.lost = true
			return
		}
	}
}

// base is the modes in force where what is kept begins.
func (r *pieces) base(now *vt.Tracker) *vt.Tracker {
	if len(r.list) == 0 {
		return now
	}
	return r.list[0].at
}

// each shows all bytes in order.
func (r *pieces) each(f func([]byte)) {
	for _, p := range r.list {
		f(p.data)
	}
}
