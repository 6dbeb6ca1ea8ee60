package fulltext

import (
	"cmp"
	"math"
	"slices"
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

// Scorer collects the best hits over several disjoint sets of documents.
type Scorer struct {
	stats Stats
	idf   []float64
	norm  float64 // b / average length
	keep  int
	after *Hit
	heap  []Hit // worst first
	total int
}

// NewScorer keeps the best hits that come after one already shown (nil: from
// the start).
func NewScorer(stats Stats, keep int, after *Hit) *Scorer {
	s := &Scorer{stats: stats, keep: keep, after: after, idf: make([]float64, len(stats.DF))}
	n := float64(stats.Docs)
	for i, df := range stats.DF {
		s.idf[i] = math.Log(1 + (n-float64(df)+0.5)/(float64(df)+0.5))
	}
	if stats.Length > 0 {
		s.norm = B * n / float64(stats.Length)
	}
	return s
}

// Add scores every document that has any of the terms. lists has the postings
// of each query term, in ordinal order; accept filters documents and may be nil.
func (s *Scorer) Add(lists [][]Posting, accept func(ord uint32) bool) {
	at := make([]int, len(lists))
	for {
		next, any := uint32(math.MaxUint32), false
		for i, l := range lists {
			if at[i] < len(l) && l[at[i]].Ord <= next {
				next, any = l[at[i]].Ord, true
			}
		}
		if !any {
			return
		}
		score := 0.0
		for i, l := range lists {
			if at[i] < len(l) && l[at[i]].Ord == next {
				tf := float64(l[at[i]].TF)
				score += s.idf[i] * tf * (K1 + 1) / (tf + K1*(1-B+s.norm*float64(l[at[i]].Len)))
				at[i]++
			}
		}
		if accept != nil && !accept(next) {
			continue
		}
		s.total++
		s.offer(Hit{Ord: next, Score: score})
	}
}

func (s *Scorer) offer(h Hit) {
	if s.after != nil && compare(h, *s.after) <= 0 {
		return
	}
	if len(s.heap) == s.keep {
		if s.keep == 0 || compare(h, s.heap[0]) >= 0 {
			return
		}
		s.heap[0] = h
		s.down(0)
		return
	}
	s.heap = append(s.heap, h)
	for i := len(s.heap) - 1; i > 0; {
		p := (i - 1) / 2
		if compare(s.heap[i], s.heap[p]) <= 0 {
			break
		}
		s.heap[i], s.heap[p] = s.heap[p], s.heap[i]
		i = p
	}
}

func (s *Scorer) down(i int) {
	for {
		worst := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(s.heap) && compare(s.heap[c], s.heap[worst]) > 0 {
				worst = c
			}
		}
		if worst == i {
			return
		}
		s.heap[i], s.heap[worst] = s.heap[worst], s.heap[i]
		i = worst
	}
}

// Hits are the best, best first, and how many documents matched in all.
func (s *Scorer) Hits() ([]Hit, int) {
	out := slices.Clone(s.heap)
	slices.SortFunc(out, compare)
	return out, s.total
}
