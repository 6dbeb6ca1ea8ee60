package fulltext

import (
	"encoding/binary"
	"errors"
)

// BlockSize is how many postings a block has at most.
const BlockSize = 128

// Posting is one term in one document.
type Posting struct {
	Ord uint32 // the document's number
	TF  uint32 // how often the term occurs in it
	Len uint32 // how many terms it has in all
}

// ErrBlock is returned for bytes that are no block.
var ErrBlock = errors.New("fulltext: damaged posting block")

// Encode writes postings, sorted by ordinal, as a block: the count, the
// highest frequency and the smallest length (an upper bound of any score in
// it), then delta of ordinal, frequency and length of each, all varints.
func Encode(ps []Posting) []byte {
	var maxTF uint32
	minLen := ^uint32(0)
	for _, p := range ps {
		maxTF, minLen = max(maxTF, p.TF), min(minLen, p.Len)
	}
	b := make([]byte, 0, 3+3*len(ps))
	b = append(b, byte(len(ps)))
	b = binary.AppendUvarint(b, uint64(maxTF))
	b = binary.AppendUvarint(b, uint64(minLen))
	prev := ps[0].Ord
	for _, p := range ps {
		b = binary.AppendUvarint(b, uint64(p.Ord-prev))
		b = binary.AppendUvarint(b, uint64(p.TF))
		b = binary.AppendUvarint(b, uint64(p.Len))
		prev = p.Ord
	}
	return b
}

// Decode appends the block's postings to out. first is the ordinal in its key.
func Decode(out []Posting, first uint32, b []byte) ([]Posting, error) {
	if len(b) == 0 || b[0] == 0 || b[0] > BlockSize {
		return out, ErrBlock
	}
	n := int(b[0])
	b = b[1:]
	next := func() (v uint64, ok bool) {
		if len(b) > 0 && b[0] < 0x80 { // nearly all are one byte
			v, b = uint64(b[0]), b[1:]
			return v, true
		}
		v, w := binary.Uvarint(b)
		if w <= 0 || v > 1<<32-1 {
			return 0, false
		}
		b = b[w:]
		return v, true
	}
	if _, ok := next(); !ok {
		return out, ErrBlock
	}
	if _, ok := next(); !ok {
		return out, ErrBlock
	}
	ord := uint64(first)
	for i := range n {
		d, ok1 := next()
		tf, ok2 := next()
		l, ok3 := next()
		ord += d
		if !ok1 || !ok2 || !ok3 || ord > 1<<32-1 || (d == 0) != (i == 0) {
			return out, ErrBlock
		}
		out = append(out, Posting{Ord: uint32(ord), TF: uint32(tf), Len: uint32(l)})
	}
	if len(b) != 0 {
		return out, ErrBlock
	}
	return out, nil
}
