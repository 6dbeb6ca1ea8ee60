package fulltext

import (
	"cmp"
	"slices"
)

// Lists are the blocks of each query term, in ordinal order, within one set of
// documents. Sets are disjoint.
type Lists [][]Block

// Query is what of a ranking is wanted.
type Query struct {
	Stats  Stats
	Keep   int
	After  *Hit                  // only what comes after it; nil: from the start
	Accept func(ord uint32) bool // nil takes all; asked only of documents that could be kept
}

// Top are the best documents that have any of the terms, best first.
func Top(sets []Lists, q Query) ([]Hit, error) {
	s := search{scale: newScale(q.Stats), page: page{keep: q.Keep, after: q.After}, accept: q.Accept}
	for _, lists := range sets {
		s.lay(lists)
	}
	better := func(a, b *window) bool { return compare(a.best, b.best) < 0 }
	open := s.windows
	for i := len(open)/2 - 1; i >= 0; i-- {
		down(open, i, better)
	}
	for len(open) > 0 && s.page.wants(open[0].best) {
		var err error
		if w := &open[0]; w.wide {
			err = s.narrow(w)
		} else {
			err = s.read(w)
			open[0] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		if err != nil {
			return nil, err
		}
		down(open, 0, better)
	}
	slices.SortFunc(s.page.heap, compare)
	return s.page.heap, nil
}

type search struct {
	scale   scale
	page    page
	accept  func(uint32) bool
	windows []window
	parts   []part // of all windows

	order []*part // of one window, by rising bound
}

// window is a range of ordinals in which each term has one block or none.
type window struct {
	best     Hit // what no document in it is better than
	last     uint32
	from, to int  // its parts
	wide     bool // has a block that goes beyond it
}

// part is a term's block within a window.
type part struct {
	term  int
	block *Block
	bound float64

	ords []uint32 // from the window's first on, once they were needed
	next int      // index of ords[0] in the block
}

// lay cuts a set of documents into windows.
func (s *search) lay(lists Lists) {
	left := slices.Clone(lists)
	bounds := make([]float64, len(left)) // of each term's first block
	for t, l := range left {
		if len(l) > 0 {
			bounds[t] = s.scale.bound(t, &l[0])
		}
	}
	for from := uint32(0); ; {
		first, last := ^uint32(0), ^uint32(0)
		some := false
		for _, l := range left {
			if len(l) > 0 {
				first, some = min(first, max(l[0].first, from)), true
			}
		}
		if !some {
			return
		}
		w := window{from: len(s.parts)}
		for t, l := range left {
			switch {
			case len(l) == 0:
			case l[0].first > first:
				last = min(last, l[0].first-1)
			default:
				last = min(last, l[0].last)
				s.parts = append(s.parts, part{term: t, block: &l[0], bound: bounds[t]})
				w.best.Score += bounds[t]
			}
		}
		w.best.Ord, w.last, w.to = first, last, len(s.parts)
		for _, p := range s.parts[w.from:] {
			w.wide = w.wide || p.block.first < first || p.block.last > last
		}
		s.windows = append(s.windows, w)
		for t, l := range left {
			if len(l) > 0 && l[0].last == last {
				if left[t] = l[1:]; len(left[t]) > 0 {
					bounds[t] = s.scale.bound(t, &left[t][0])
				}
			}
		}
		if last == ^uint32(0) {
			return
		}
		from = last + 1
	}
}

// slack is for sums of scores in another order than a document's own: they may
// be rounded otherwise.
const slack = 1 + 1e-9

// narrow bounds a window by what its wide blocks have within it. A rare term's
// block is in many windows, and in few of them there is a posting of it.
func (s *search) narrow(w *window) error {
	w.wide, w.best.Score = false, 0
	for i := range s.parts[w.from:w.to] {
		p := &s.parts[w.from+i]
		if p.block.first < w.best.Ord || p.block.last > w.last {
			if err := p.seek(w.best.Ord); err != nil {
				return err
			}
			p.bound = 0
			for j, ord := range p.ords {
				if ord > w.last {
					break
				}
				p.bound = max(p.bound, s.scale.score(p.term, p.block.at(p.next+j)))
			}
		}
		w.best.Score += p.bound
	}
	return nil
}

// read offers what a window has. Documents that have only terms which together
// can't reach the page are not looked at.
func (s *search) read(w *window) error {
	parts := s.parts[w.from:w.to]
	s.order = s.order[:0]
	for i := range parts {
		s.order = append(s.order, &parts[i])
	}
	slices.SortFunc(s.order, func(a, b *part) int { return cmp.Compare(a.bound, b.bound) })
	weak, most := 0, 0.0 // how many terms are only looked up, and what they add at most
	for weak < len(s.order) && !s.page.wants(Hit{w.best.Ord, (most + s.order[weak].bound) * slack}) {
		most += s.order[weak].bound
		weak++
	}
	strong := s.order[weak:]
	for _, p := range strong {
		if err := p.seek(w.best.Ord); err != nil {
			return err
		}
	}
	for {
		ord, some := w.last, false
		for _, p := range strong {
			if len(p.ords) > 0 && p.ords[0] <= ord {
				ord, some = p.ords[0], true
			}
		}
		if !some {
			return nil
		}
		sum := most
		for _, p := range strong {
			if len(p.ords) > 0 && p.ords[0] == ord {
				sum += s.scale.score(p.term, p.block.at(p.next))
			}
		}
		if s.page.wants(Hit{ord, sum * slack}) {
			for _, p := range s.order[:weak] {
				if err := p.seek(ord); err != nil {
					return err
				}
			}
			score := 0.0
			for i := range parts { // in the order of the terms, whatever was read first
				if p := &parts[i]; len(p.ords) > 0 && p.ords[0] == ord {
					score += s.scale.score(p.term, p.block.at(p.next))
				}
			}
			if h := (Hit{ord, score}); s.page.wants(h) && (s.accept == nil || s.accept(ord)) {
				s.page.offer(h)
			}
		}
		for _, p := range strong {
			if len(p.ords) > 0 && p.ords[0] == ord {
				p.ords, p.next = p.ords[1:], p.next+1
			}
		}
	}
}

// seek goes on to the first posting of ord or a later document.
func (p *part) seek(ord uint32) error {
	ords := p.ords
	if ords == nil {
		var err error
		if ords, err = p.block.ordinals(); err != nil {
			return err
		}
	}
	n, _ := slices.BinarySearch(ords, ord)
	p.ords, p.next = ords[n:], p.next+n
	return nil
}
