package fulltext_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
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
	f.Add(uint32(0), []byte{fulltext.Format, 128, 1})
	f.Add(uint32(math.MaxUint32), fulltext.Encode([]fulltext.Posting{{Ord: 1, TF: 1, Len: 1}, {Ord: 2, TF: 1, Len: 1}}))
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

// Another format is not read as this one.
func TestBlock_OfAnotherFormatIsRefused(t *testing.T) {
	b := fulltext.Encode([]fulltext.Posting{{Ord: 5, TF: 1, Len: 7}})
	for format := range 256 {
		b[0] = byte(format)
		if _, err := fulltext.Open(5, b); (err == nil) != (format == fulltext.Format) {
			t.Errorf("format %#x: %v", format, err)
		}
	}
}

// corpus is documents in disjoint sets, and what each has of the query's terms.
type corpus struct {
	sets  []map[uint32][]fulltext.Posting // by ordinal: a posting a term, TF 0 for none
	stats fulltext.Stats
}

// drawCorpus has few frequencies and lengths, so that many scores are equal.
func drawCorpus(t *rapid.T) corpus {
	terms := rapid.IntRange(1, 5).Draw(t, "terms")
	c := corpus{stats: fulltext.Stats{DF: make([]uint64, terms)}}
	for range rapid.IntRange(1, 3).Draw(t, "sets") {
		c.sets = append(c.sets, map[uint32][]fulltext.Posting{})
	}
	rare := make([]int, terms) // one document in as many has the term
	for i := range rare {
		rare[i] = rapid.SampledFrom([]int{1, 2, 10, 100}).Draw(t, "rare")
	}
	lengths := rapid.Uint32Range(1, 300).Draw(t, "lengths")
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	ord := uint32(random.IntN(1000))
	for range rapid.IntRange(1, 1500).Draw(t, "documents") {
		ord += 1 + uint32(random.IntN(3))*uint32(random.IntN(200))
		length := 1 + random.Uint32N(lengths)
		ps := make([]fulltext.Posting, terms)
		some := false
		for i := range ps {
			if random.IntN(rare[i]) == 0 {
				ps[i] = fulltext.Posting{Ord: ord, TF: 1 + uint32(random.ExpFloat64()*2), Len: length}
				c.stats.DF[i]++
				some = true
			}
		}
		c.stats.Docs++
		c.stats.Length += uint64(length)
		if some {
			c.sets[random.IntN(len(c.sets))][ord] = ps
		}
	}
	return c
}

// blocks encodes the corpus in blocks of any size up to the largest.
func (c corpus) blocks(t *rapid.T) []fulltext.Lists {
	size := rapid.IntRange(1, fulltext.BlockSize).Draw(t, "block")
	var sets []fulltext.Lists
	for _, set := range c.sets {
		lists := make(fulltext.Lists, len(c.stats.DF))
		for term := range lists {
			var ps []fulltext.Posting
			for _, ord := range slices.Sorted(maps.Keys(set)) {
				if set[ord][term].TF > 0 {
					ps = append(ps, set[ord][term])
				}
			}
			for some := range slices.Chunk(ps, size) {
				k, err := fulltext.Open(some[0].Ord, fulltext.Encode(some))
				if err != nil || k.Len() != len(some) {
					t.Fatal(k.Len(), err)
				}
				lists[term] = append(lists[term], k)
			}
		}
		sets = append(sets, lists)
	}
	return sets
}

// ranking is every document that is accepted, scored one by one.
func (c corpus) ranking(accept func(uint32) bool) []fulltext.Hit {
	var all []fulltext.Hit
	norm := fulltext.B * float64(c.stats.Docs) / float64(c.stats.Length)
	for _, set := range c.sets {
		for ord, ps := range set {
			score := 0.0
			for term, p := range ps {
				if n, df := float64(c.stats.Docs), float64(c.stats.DF[term]); p.TF > 0 {
					score += math.Log(1+(n-df+0.5)/(df+0.5)) * (fulltext.K1 + 1) / (1 + fulltext.K1*(1-fulltext.B+float64(norm*float64(p.Len)))/float64(p.TF))
				}
			}
			if accept == nil || accept(ord) {
				all = append(all, fulltext.Hit{Ord: ord, Score: score})
			}
		}
	}
	slices.SortFunc(all, func(a, b fulltext.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Ord, b.Ord))
	})
	return all
}

// best is the highest score of a term in any of some documents.
func (c corpus) best(term int, of []fulltext.Posting) float64 {
	alone := corpus{sets: []map[uint32][]fulltext.Posting{{}}, stats: c.stats}
	for _, p := range of {
		ps := make([]fulltext.Posting, len(c.stats.DF))
		ps[term] = c.sets[0][p.Ord][term]
		alone.sets[0][p.Ord] = ps
	}
	return alone.ranking(nil)[0].Score
}

// Whatever is left unread: the set, the order and the scores are those of
// scoring every document, to the bit, on every page, and so is the count.
func TestTop_IsWhatScoringEverythingGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCorpus(t)
		var accept func(uint32) bool
		if every := rapid.SampledFrom([]uint32{0, 2, 50}).Draw(t, "accept"); every > 0 {
			accept = func(ord uint32) bool { return ord%every == 0 }
		}
		want := c.ranking(accept)
		n, err := fulltext.Count(c.blocks(t), accept)
		if err != nil || n != len(want) {
			t.Fatalf("counted %d, %v; there are %d", n, err, len(want))
		}
		keep := rapid.SampledFrom([]int{1, 3, 10, 100, 2000}).Draw(t, "keep")
		var after *fulltext.Hit
		for pages := 0; len(want) > 0 && pages < 20; pages++ {
			got, err := fulltext.Top(c.blocks(t), fulltext.Query{Stats: c.stats, Keep: keep, After: after, Accept: accept})
			page := want[:min(keep, len(want))]
			if err != nil || !slices.Equal(got, page) {
				t.Fatalf("page %d is\n%v, %v; want\n%v", pages, got, err, page)
			}
			after, want = &page[len(page)-1], want[len(page):]
		}
	})
}

// Only blocks that could have something for the page are read: all others are
// damaged here, and nobody notices. One term is in every document, another in few.
func TestTop_ReadsOnlyWhatCouldReachThePage(t *testing.T) {
	const documents, keep = 200_000, 10
	for name, rare := range map[string]int{"one term": documents + 1, "two terms": documents / 100} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			c := corpus{sets: []map[uint32][]fulltext.Posting{{}}, stats: fulltext.Stats{DF: make([]uint64, 2)}}
			ord := uint32(0)
			var all [2][]fulltext.Posting
			for i := range documents {
				ord += 1 + random.Uint32N(4)
				p := fulltext.Posting{Ord: ord, TF: 1 + uint32(random.ExpFloat64()), Len: 50 + random.Uint32N(200)}
				ps := []fulltext.Posting{p, {}}
				all[0] = append(all[0], p)
				if i%rare == rare-1 {
					ps[1] = p
					all[1] = append(all[1], p)
				}
				c.sets[0][ord] = ps
				c.stats.Docs += 2
				c.stats.Length += 2 * uint64(p.Len)
			}
			c.stats.DF = []uint64{uint64(len(all[0])), uint64(len(all[1]))}
			want := c.ranking(nil)[:keep]
			lists := make(fulltext.Lists, 2)
			blocks, unread := 0, 0
			edge := func(p fulltext.Posting) bool { // the other term's block begins or ends here
				n := len(all[1])
				return n > 0 && (p.Ord == all[1][0].Ord || p.Ord == all[1][n-1].Ord)
			}
			for term, ps := range all {
				for some := range slices.Chunk(ps, fulltext.BlockSize) {
					b := fulltext.Encode(some)
					if blocks++; term == 0 && !slices.ContainsFunc(some, edge) && c.best(0, some)+c.best(1, some) < want[keep-1].Score {
						unread++
						damage(b, len(some))
						if _, err := fulltext.Decode(nil, some[0].Ord, b); err == nil {
							t.Fatal("the block is not damaged")
						}
					}
					k, err := fulltext.Open(some[0].Ord, b)
					if err != nil {
						t.Fatal(err)
					}
					lists[term] = append(lists[term], k)
				}
			}
			got, err := fulltext.Top([]fulltext.Lists{lists}, fulltext.Query{Stats: c.stats, Keep: keep})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
			if unread < blocks*9/10 {
				t.Errorf("only %d of %d blocks could be left unread", unread, blocks)
			}
		})
	}
}

// damage changes a block's first gap, which is the first byte of its columns.
func damage(b []byte, n int) {
	w := [4]int{0, 1, 2, 4}
	b[len(b)-(n-1)*w[b[2]&3]-n*w[b[2]>>2&3]-n*w[b[2]>>4]]++
}
