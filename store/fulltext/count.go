package fulltext

import (
	"cmp"
	"slices"
)

// Count is how many documents have any of the terms. accept may be nil; else it
// is asked of each of them.
//
// Where one term is all that there is of it, the headers of its blocks tell.
func Count(sets []Lists, accept func(ord uint32) bool) (int, error) {
	total := 0
	seen := within(sets)
	for _, lists := range sets {
		bySize := slices.Clone(lists)
		slices.SortFunc(bySize, func(a, b []Block) int { return cmp.Compare(len(a), len(b)) })
		for i, list := range bySize {
			final := i == len(bySize)-1
			for j := range list {
				k := &list[j]
				if final && accept == nil && !seen.any(k.first, k.last) {
					total += k.n
					continue
				}
				ords, err := k.ordinals()
				if err != nil {
					return 0, err
				}
				for _, ord := range ords {
					if seen.add(ord) && (accept == nil || accept(ord)) {
						total++
					}
				}
			}
		}
	}
	return total, nil
}

// ordinals is a set of them, a bit each.
type ordinals struct {
	low, high uint32   // words that there can be
	words     []uint64 // from low on, once there is an ordinal
}

// within is an empty set with room for the ordinals of all blocks.
func within(sets []Lists) ordinals {
	s := ordinals{low: ^uint32(0)}
	for _, lists := range sets {
		for _, l := range lists {
			if len(l) > 0 {
				s.low, s.high = min(s.low, l[0].first/64), max(s.high, l[len(l)-1].last/64)
			}
		}
	}
	return s
}

// add says whether ord is new.
func (s *ordinals) add(ord uint32) bool {
	if s.words == nil {
		s.words = make([]uint64, s.high-s.low+1)
	}
	word, bit := &s.words[ord/64-s.low], uint64(1)<<(ord%64)
	was := *word
	*word |= bit
	return was&bit == 0
}

// any says whether an ordinal in [first, last] was added.
func (s *ordinals) any(first, last uint32) bool {
	if s.words == nil {
		return false
	}
	low, high := first/64, last/64
	for w := low; w <= high; w++ {
		bits := s.words[w-s.low]
		if w == low {
			bits &= ^uint64(0) << (first % 64)
		}
		if w == high {
			bits &= ^uint64(0) >> (63 - last%64)
		}
		if bits != 0 {
			return true
		}
	}
	return false
}
