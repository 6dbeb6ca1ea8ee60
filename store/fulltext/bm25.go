package fulltext

import (
	"cmp"
	"math"
)

// Parameters of BM25.
const (
	K1 = 1.2
	B  = 0.75
)

// Stats are what a score depends on besides the postings themselves.
type Stats struct {
	Docs   uint64   // documents in all that is searched
	Length uint64   // terms in all of them
	DF     []uint64 // of each query term: documents that have it
}

// Hit is a document and its score.
type Hit struct {
	Ord   uint32
	Score float64
}

// compare puts the better hit first; equal scores are in ordinal order.
func compare(a, b Hit) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 {
		return c
	}
	return cmp.Compare(a.Ord, b.Ord)
}

// scale is BM25 with its statistics.
type scale struct {
	weight []float64 // of each query term
	norm   float64   // b / average length
}

func newScale(s Stats) scale {
	c := scale{weight: make([]float64, len(s.DF))}
	n := float64(s.Docs)
	for i, df := range s.DF {
		c.weight[i] = math.Log(1+(n-float64(df)+0.5)/(float64(df)+0.5)) * (K1 + 1)
	}
	if s.Length > 0 {
		c.norm = B * n / float64(s.Length)
	}
	return c
}

// score is a term's part of a document's score. It is written so that each step
// keeps the order, rounded as it is: what beats another never scores less. (A
// conversion keeps a compiler from rounding two steps as one here and not there.)
func (c *scale) score(term int, i impact) float64 {
	return c.weight[term] / (1 + K1*(1-B+float64(c.norm*float64(i.len)))/float64(i.tf))
}

// bound is the highest score of any posting in a block.
func (c *scale) bound(term int, k *Block) (best float64) {
	k.each(func(i impact) { best = max(best, c.score(term, i)) })
	return best
}

// page keeps the best hits that come after one already shown.
type page struct {
	keep  int
	after *Hit  // nil: from the start
	heap  []Hit // worst first
}

// wants says whether a hit as good as h, or any worse one, could be kept.
func (p *page) wants(h Hit) bool {
	return len(p.heap) < p.keep || p.keep > 0 && compare(h, p.heap[0]) < 0
}

func (p *page) offer(h Hit) {
	switch {
	case p.after != nil && compare(h, *p.after) <= 0 || !p.wants(h):
	case len(p.heap) == p.keep:
		p.heap[0] = h
		down(p.heap, 0, worse)
	default:
		p.heap = append(p.heap, h)
		for i := len(p.heap) - 1; i > 0; {
			parent := (i - 1) / 2
			if !worse(&p.heap[i], &p.heap[parent]) {
				break
			}
			p.heap[i], p.heap[parent] = p.heap[parent], p.heap[i]
			i = parent
		}
	}
}

func worse(a, b *Hit) bool { return compare(*a, *b) > 0 }

// down restores a heap whose element i may have to go down; first elements are
// nearer to the top.
func down[T any](heap []T, i int, first func(a, b *T) bool) {
	for {
		top := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(heap) && first(&heap[c], &heap[top]) {
				top = c
			}
		}
		if top == i {
			return
		}
		heap[i], heap[top] = heap[top], heap[i]
		i = top
	}
}
