package fulltext_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sophia/store/fulltext"
)

func postings(t *rapid.T, limit int) []fulltext.Posting {
	n := rapid.IntRange(1, limit).Draw(t, "n")
	ord := uint32(0)
	var ps []fulltext.Posting
	for range n {
		ord += rapid.Uint32Range(1, 100000).Draw(t, "gap")
		ps = append(ps, fulltext.Posting{Ord: ord, TF: rapid.Uint32Range(1, 500).Draw(t, "tf"), Len: rapid.Uint32Range(1, 5000).Draw(t, "len")})
	}
	return ps
}

func TestBlock_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ps := postings(t, fulltext.BlockSize)
		got, err := fulltext.Decode(nil, ps[0].Ord, fulltext.Encode(ps))
		if err != nil || !slices.Equal(got, ps) {
			t.Fatalf("%v, %v; want %v", got, err, ps)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(uint32(5), fulltext.Encode([]fulltext.Posting{{Ord: 5, TF: 1, Len: 7}, {Ord: 900, TF: 300, Len: 1}}))
	f.Add(uint32(0), []byte{128, 1})
	f.Add(uint32(math.MaxUint32), []byte{2, 1, 1, 0, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, first uint32, b []byte) {
		ps, err := fulltext.Decode(nil, first, b)
		if err != nil {
			return
		}
		again, err := fulltext.Decode(nil, first, fulltext.Encode(ps))
		if err != nil || !slices.Equal(again, ps) {
			t.Fatalf("%v decodes to %v and then to %v, %v", b, ps, again, err)
		}
	})
}

// The formula, written down a second time and the slow way.
func TestBM25_IsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := [][]fulltext.Posting{postings(t, 40), postings(t, 40)}
		length := map[uint32]uint32{}
		for _, l := range lists {
			for i := range l {
				if n, ok := length[l[i].Ord]; ok {
					l[i].Len = n
				}
				length[l[i].Ord] = l[i].Len
			}
		}
		docs, total := uint64(len(length)+3), uint64(50)
		for _, n := range length {
			total += uint64(n)
		}
		stats := fulltext.Stats{Docs: docs, Length: total, DF: []uint64{uint64(len(lists[0])), uint64(len(lists[1]))}}
		want := map[uint32]float64{}
		for i, l := range lists {
			df := float64(stats.DF[i])
			idf := math.Log(1 + (float64(docs)-df+0.5)/(df+0.5))
			for _, p := range l {
				tf, avg := float64(p.TF), float64(total)/float64(docs)
				want[p.Ord] += idf * tf * 2.2 / (tf + 1.2*(0.25+0.75*float64(p.Len)/avg))
			}
		}
		keep := rapid.IntRange(1, 20).Draw(t, "page")
		var seen []fulltext.Hit
		var after *fulltext.Hit
		for {
			s := fulltext.NewScorer(stats, keep, after)
			s.Add(lists, nil)
			hits, n := s.Hits()
			if n != len(want) {
				t.Fatalf("total %d, want %d", n, len(want))
			}
			if len(hits) == 0 {
				break
			}
			seen = append(seen, hits...)
			after = &seen[len(seen)-1]
		}
		if len(seen) != len(want) {
			t.Fatalf("paging shows %d of %d", len(seen), len(want))
		}
		for i, h := range seen {
			if math.Abs(h.Score-want[h.Ord]) > 1e-9 {
				t.Fatalf("document %d: %v, want %v", h.Ord, h.Score, want[h.Ord])
			}
			if i > 0 && (h.Score > seen[i-1].Score || h.Score == seen[i-1].Score && h.Ord <= seen[i-1].Ord) {
				t.Fatalf("hit %d is out of order or shown twice", i)
			}
		}
	})
}
