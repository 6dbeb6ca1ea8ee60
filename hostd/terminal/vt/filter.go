package vt

// Filter copies a stream and leaves out the whole sequences that Drop wants
// gone, and those that are void. Incomplete sequences are held back until they are complete, so that
// what comes out ends at a sequence's end (but for strings longer than 4 KiB).
type Filter struct {
	Drop func(k Kind, raw []byte) bool

	p    Parser
	out  []byte
	skip bool // in a long string that is dropped
}

// Append appends what is left of b to dst.
func (f *Filter) Append(dst, b []byte) []byte {
	f.out = dst
	f.p.Parse(b, f)
	dst, f.out = f.out, nil
	return dst
}

// Ground is true when nothing is held back.
func (f *Filter) Ground() bool { return f.p.Ground() }

// Text is of Handler.
func (f *Filter) Text(b []byte) { f.out = append(f.out, b...) }

// Sequence is of Handler.
func (f *Filter) Sequence(k Kind, raw []byte) {
	// One that another ESC cut off is void, and would come to life again if what
	// cut it off were dropped: "ESC [" and "ESC [6n" before the letter m.
	void := k == Broken && raw[len(raw)-1] != can && raw[len(raw)-1] != sub
	if !void && !f.Drop(k, raw) {
		f.out = append(f.out, raw...)
	}
}

// Long is of Handler.
func (f *Filter) Long(k Kind, piece []byte, first, last bool) {
	if first {
		f.skip = f.Drop(k, piece)
	}
	if !f.skip {
		f.out = append(f.out, piece...)
		if last && len(piece) == 0 { // cut off by an ESC, which may be dropped
			f.out = append(f.out, can)
		}
	}
	if last {
		f.skip = false
	}
}

// Plain is the text of a stream without any control sequence: what a person
// would read of it. Lines that were overwritten with carriage returns stay.
func Plain(b []byte) []byte {
	f := Filter{Drop: func(Kind, []byte) bool { return true }}
	out := f.Append(make([]byte, 0, len(b)), b)
	n := 0
	for i, c := range out {
		if c >= 0x20 && c != del || c == '\n' || c == '\t' || c == '\r' && (i+1 == len(out) || out[i+1] != '\n') {
			if c == '\r' {
				c = '\n'
			}
			out[n] = c
			n++
		}
	}
	return out[:n]
}
