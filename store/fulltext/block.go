package fulltext

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Format is of the stored blocks, and the first byte of each. Another one is
// not read; the store makes its index anew when it changes.
const Format = 0x82

// BlockSize is how many postings a block has at most.
const BlockSize = 128

// Posting is one term in one document.
type Posting struct {
	Ord uint32 // the document's number
	TF  uint32 // how often the term occurs in it, at least once
	Len uint32 // how many terms it has in all
}

// ErrBlock is returned for bytes that are no block of this format.
var ErrBlock = errors.New("fulltext: damaged posting block")

// impact is a frequency and a length that occur together.
type impact struct{ tf, len uint32 }

// beats: a posting of i scores at least what one of j does.
func (i impact) beats(j impact) bool { return i.tf >= j.tf && i.len <= j.len }

// impacts are those of the postings that no other beats, by rising frequency and
// so by rising length: the first has the smallest length, the last the highest
// frequency.
func impacts(ps []Posting) []impact {
	var front []impact
	for _, p := range ps {
		new := impact{p.TF, p.Len}
		if slices.ContainsFunc(front, func(i impact) bool { return i.beats(new) }) {
			continue
		}
		front = slices.DeleteFunc(front, new.beats)
		at, _ := slices.BinarySearchFunc(front, new.tf, func(i impact, tf uint32) int { return int(int64(i.tf) - int64(tf)) })
		front = slices.Insert(front, at, new)
	}
	return front
}

// Columns hold a number in 0, 1, 2 or 4 bytes each, whichever its largest needs.
var widths = [4]int{0, 1, 2, 4}

func widthCode(largest uint32) byte {
	switch {
	case largest == 0:
		return 0
	case largest < 1<<8:
		return 1
	case largest < 1<<16:
		return 2
	}
	return 3
}

func appendColumn(b []byte, code byte, v uint32) []byte {
	switch code {
	case 1:
		return append(b, byte(v))
	case 2:
		return binary.LittleEndian.AppendUint16(b, uint16(v))
	case 3:
		return binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func column(b []byte, code byte, i int) uint32 {
	switch code {
	case 1:
		return uint32(b[i])
	case 2:
		return uint32(binary.LittleEndian.Uint16(b[2*i:]))
	case 3:
		return binary.LittleEndian.Uint32(b[4*i:])
	}
	return 0
}

// Encode writes postings, sorted by ordinal, as a block.
func Encode(ps []Posting) []byte {
	front := impacts(ps)
	shortest := front[0].len
	var gap, tf, length uint32
	for i, p := range ps {
		if i > 0 {
			gap = max(gap, p.Ord-ps[i-1].Ord-1)
		}
		tf, length = max(tf, p.TF-1), max(length, p.Len-shortest)
	}
	gaps, tfs, lens := widthCode(gap), widthCode(tf), widthCode(length)
	b := make([]byte, 0, 16+len(ps)*(widths[gaps]+widths[tfs]+widths[lens]))
	b = append(b, Format, byte(len(ps)), gaps|tfs<<2|lens<<4)
	b = binary.AppendUvarint(b, uint64(ps[len(ps)-1].Ord-ps[0].Ord))
	b = append(b, byte(len(front)))
	var before impact
	for _, i := range front {
		b = binary.AppendUvarint(b, uint64(i.tf-before.tf))
		b = binary.AppendUvarint(b, uint64(i.len-before.len))
		before = i
	}
	for i := range ps[1:] {
		b = appendColumn(b, gaps, ps[i+1].Ord-ps[i].Ord-1)
	}
	for _, p := range ps {
		b = appendColumn(b, tfs, p.TF-1)
	}
	for _, p := range ps {
		b = appendColumn(b, lens, p.Len-shortest)
	}
	return b
}

// Block is a block of which the header has been read.
type Block struct {
	first, last     uint32
	n               int
	shortest        uint32
	impacts         []byte
	count           int // of impacts
	gaps, tfs, lens []byte
	gapW, tfW, lenW byte
	ords            []uint32 // once they were needed
}

// Open reads a block's header and keeps b. first is the ordinal in its key.
func Open(first uint32, b []byte) (Block, error) {
	if len(b) < 5 || b[0] != Format || b[1] == 0 || b[1] > BlockSize || b[2] >= 1<<6 {
		return Block{}, ErrBlock
	}
	k := Block{first: first, n: int(b[1]), gapW: b[2] & 3, tfW: b[2] >> 2 & 3, lenW: b[2] >> 4}
	span, b, ok := uvarint(b[3:])
	if !ok || uint64(first)+uint64(span) > 1<<32-1 || len(b) == 0 || b[0] == 0 || int(b[0]) > k.n {
		return Block{}, ErrBlock
	}
	k.last, k.count, k.impacts = first+span, int(b[0]), b[1:]
	b = k.impacts
	for i := range 2 * k.count {
		var v uint32
		if v, b, ok = uvarint(b); !ok {
			return Block{}, ErrBlock
		}
		if i == 1 {
			k.shortest = v
		}
	}
	sizes := [3]int{(k.n - 1) * widths[k.gapW], k.n * widths[k.tfW], k.n * widths[k.lenW]}
	if len(b) != sizes[0]+sizes[1]+sizes[2] {
		return Block{}, ErrBlock
	}
	k.gaps, b = b[:sizes[0]], b[sizes[0]:]
	k.tfs, k.lens = b[:sizes[1]], b[sizes[1]:]
	return k, nil
}

func uvarint(b []byte) (uint32, []byte, bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 || v > 1<<32-1 {
		return 0, nil, false
	}
	return uint32(v), b[n:], true
}

// Len is how many postings the block has.
func (k *Block) Len() int { return k.n }

// ordinals are the documents' numbers, rising.
func (k *Block) ordinals() ([]uint32, error) {
	if k.ords != nil {
		return k.ords, nil
	}
	ords := make([]uint32, k.n)
	ord := uint64(k.first)
	ords[0] = k.first
	for i := range k.n - 1 {
		ord += uint64(column(k.gaps, k.gapW, i)) + 1
		ords[i+1] = uint32(ord)
	}
	if ord != uint64(k.last) {
		return nil, ErrBlock
	}
	k.ords = ords
	return ords, nil
}

// at is the frequency and length of the block's i-th posting.
func (k *Block) at(i int) impact {
	return impact{column(k.tfs, k.tfW, i) + 1, column(k.lens, k.lenW, i) + k.shortest}
}

// each calls f for each impact.
func (k *Block) each(f func(impact)) {
	var i impact
	b := k.impacts
	for range k.count {
		var tf, length uint32
		tf, b, _ = uvarint(b) // Open has read them
		length, b, _ = uvarint(b)
		i.tf, i.len = i.tf+tf, i.len+length
		f(i)
	}
}

// Decode appends a block's postings to out. first is the ordinal in its key.
func Decode(out []Posting, first uint32, b []byte) ([]Posting, error) {
	k, err := Open(first, b)
	if err != nil {
		return out, err
	}
	ords, err := k.ordinals()
	if err != nil {
		return out, err
	}
	for i, ord := range ords {
		p := k.at(i)
		out = append(out, Posting{Ord: ord, TF: p.tf, Len: p.len})
	}
	return out, nil
}
