package store

import (
	"encoding/binary"
	"sort"

	"sophia/store/analysis"
	"sophia/store/fulltext"
)

// tail is the last block of a posting list, kept decoded while a write goes
// on: nearly every posting of a new row is added to one.
type tail struct {
	prefix   []byte
	first    uint32 // in its key; meaningless while empty
	postings []fulltext.Posting
	dirty    bool
}

// partitionStats are a partition's share of what BM25 needs to know.
type partitionStats struct {
	docs, length uint64
}

func (p partitionStats) encode() []byte {
	if p.docs == 0 {
		return nil
	}
	return binary.AppendUvarint(binary.AppendUvarint(nil, p.docs), p.length)
}

func decodeStats(b []byte) (p partitionStats) {
	docs, n := binary.Uvarint(b)
	length, _ := binary.Uvarint(b[max(n, 0):])
	return partitionStats{docs, length}
}

// reindexText brings the postings of a row from its old text to its new one.
// A row keeps its ordinal for life, so that cursors stay valid over updates.
func (tx *Tx) reindexText(table uint16, key string, was bool, oldPart, oldText string, is bool, newPart, newText string) error {
	if was && is && oldPart == newPart && oldText == newText {
		return nil
	}
	ord, known, err := tx.ordinal(table, key)
	if err != nil {
		return err
	}
	if was && known {
		if err := tx.eachTerm(oldText, func(term string, tf, n uint32) error {
			return tx.removePosting(postingPrefix(term, table, &oldPart), ord)
		}); err != nil {
			return err
		}
		if err := tx.countText(table, oldPart, -1, oldText); err != nil {
			return err
		}
	}
	if !is {
		if known {
			tx.set(ordinalKey(table, key), nil)
			tx.set(documentKey(ord), nil)
		}
		return nil
	}
	if !known {
		ord = tx.head.Ord
		tx.head.Ord++
		tx.set(ordinalKey(table, key), binary.BigEndian.AppendUint32(nil, ord))
		tx.set(documentKey(ord), append(binary.BigEndian.AppendUint16(nil, table), key...))
	}
	if err := tx.eachTerm(newText, func(term string, tf, n uint32) error {
		return tx.addPosting(postingPrefix(term, table, &newPart), fulltext.Posting{Ord: ord, TF: tf, Len: n})
	}); err != nil {
		return err
	}
	return tx.countText(table, newPart, +1, newText)
}

func (tx *Tx) eachTerm(text string, f func(term string, tf, n uint32) error) error {
	terms := tx.terms(text)
	sorted := append([]string(nil), terms...)
	sort.Strings(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if err := f(sorted[i], uint32(j-i), uint32(len(terms))); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// terms remembers the last text: it is needed for postings and for the count.
func (tx *Tx) terms(text string) []string {
	if tx.lastTerms == nil || tx.lastText != text {
		tx.lastText, tx.lastTerms = text, analysis.Terms(text)
	}
	return tx.lastTerms
}

func (tx *Tx) ordinal(table uint16, key string) (uint32, bool, error) {
	b, ok, err := tx.view.get(ordinalKey(table, key))
	if err != nil || !ok || len(b) != 4 {
		return 0, false, err
	}
	return binary.BigEndian.Uint32(b), true, nil
}

func (tx *Tx) countText(table uint16, partition string, sign int, text string) error {
	key := partitionKey(table, partition)
	b, _, err := tx.view.get(key)
	if err != nil {
		return err
	}
	p := decodeStats(b)
	n := uint64(len(tx.terms(text)))
	if sign > 0 {
		p.docs, p.length = p.docs+1, p.length+n
	} else {
		p.docs, p.length = p.docs-1, p.length-n
	}
	tx.set(key, p.encode())
	return nil
}

// blockAt finds the block of a list that ordinal ord is in or belongs after.
func (tx *Tx) blockAt(prefix []byte, ord uint32) (t *tail, err error) {
	low := prefix
	high := after(binary.BigEndian.AppendUint32(append([]byte(nil), prefix...), ord))
	t = &tail{prefix: prefix}
	k, v, ok, err := tx.view.last(low, high)
	if err != nil || !ok {
		return t, err
	}
	t.first = binary.BigEndian.Uint32(k[len(prefix):])
	t.postings, err = fulltext.Decode(nil, t.first, v)
	return t, err
}

func (tx *Tx) writeBlock(t *tail) {
	old := binary.BigEndian.AppendUint32(append([]byte(nil), t.prefix...), t.first)
	if len(t.postings) == 0 {
		tx.set(old, nil)
		return
	}
	if t.postings[0].Ord != t.first {
		tx.set(old, nil)
		t.first = t.postings[0].Ord
		old = binary.BigEndian.AppendUint32(append([]byte(nil), t.prefix...), t.first)
	}
	tx.set(old, fulltext.Encode(t.postings))
	t.dirty = false
}

func (tx *Tx) addPosting(prefix []byte, p fulltext.Posting) error {
	name := string(prefix)
	t := tx.tails[name]
	if t == nil {
		var err error
		if t, err = tx.blockAt(prefix, 1<<32-1); err != nil {
			return err
		}
		tx.tails[name] = t
	}
	if n := len(t.postings); n > 0 && t.postings[n-1].Ord >= p.Ord {
		return tx.insertPosting(prefix, p)
	}
	if len(t.postings) == fulltext.BlockSize {
		if t.dirty {
			tx.writeBlock(t)
		}
		t = &tail{prefix: prefix}
		tx.tails[name] = t
	}
	if len(t.postings) == 0 {
		t.first = p.Ord
	}
	t.postings = append(t.postings, p)
	t.dirty = true
	return nil
}

// insertPosting puts a posting back into the middle of a list: a row with an
// older ordinal has got a term that it did not have.
func (tx *Tx) insertPosting(prefix []byte, p fulltext.Posting) error {
	tx.flushTail(prefix)
	t, err := tx.blockAt(prefix, p.Ord)
	if err != nil {
		return err
	}
	if len(t.postings) == 0 { // before all blocks: one of its own
		t.first = p.Ord
	}
	i := sort.Search(len(t.postings), func(i int) bool { return t.postings[i].Ord >= p.Ord })
	t.postings = append(t.postings, fulltext.Posting{})
	copy(t.postings[i+1:], t.postings[i:])
	t.postings[i] = p
	if len(t.postings) > fulltext.BlockSize {
		half := len(t.postings) / 2
		upper := &tail{prefix: prefix, first: t.postings[half].Ord, postings: t.postings[half:]}
		tx.writeBlock(upper)
		t.postings = t.postings[:half]
	}
	tx.writeBlock(t)
	return nil
}

func (tx *Tx) removePosting(prefix []byte, ord uint32) error {
	tx.flushTail(prefix)
	t, err := tx.blockAt(prefix, ord)
	if err != nil {
		return err
	}
	i := sort.Search(len(t.postings), func(i int) bool { return t.postings[i].Ord >= ord })
	if i == len(t.postings) || t.postings[i].Ord != ord {
		return nil
	}
	t.postings = append(t.postings[:i], t.postings[i+1:]...)
	tx.writeBlock(t)
	return nil
}

func (tx *Tx) flushTail(prefix []byte) {
	if t := tx.tails[string(prefix)]; t != nil {
		if t.dirty {
			tx.writeBlock(t)
		}
		delete(tx.tails, string(prefix))
	}
}

// flushTails writes what addPosting has gathered.
func (tx *Tx) flushTails() {
	for _, t := range tx.tails {
		if t.dirty {
			tx.writeBlock(t)
		}
	}
	clear(tx.tails)
}
