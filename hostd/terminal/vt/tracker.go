package vt

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// maxModes bounds what a hostile stream can make a tracker remember.
const maxModes = 256

// maxStack is the depth of a kitty keyboard stack, as in kitty itself.
const maxStack = 16

// Tracker follows the modes of a stream. Make one with NewTracker.
//
// It follows: DEC and ANSI modes, alternate screen, scroll margins, pen (SGR),
// kitty keyboard stacks of both screens, modifyOtherKeys, keypad, cursor style,
// character sets, hyperlink, title, and the dynamic colours. It does not follow
// the cursor's place, tab stops and the cells.
type Tracker struct {
	// OnQuery, if set, is told each query and what the terminal should answer
	// is up to it.
	OnQuery func(k Kind, raw []byte)

	p      Parser
	dec    map[int]bool // modes that the stream set or reset
	ansi   map[int]bool
	alt    int // 0, or the mode that switched to the alternate screen
	margin string
	sides  string
	pen    pen
	saved  [2]cursor // DECSC of both screens
	kitty  [2][]int  // main, alternate
	flags  [2]int
	other  string // modifyOtherKeys
	keypad bool
	style  string
	sets   [4]byte // designation of G0 to G3, 0 is ASCII
	shift  byte    // SO: G1 in GL
	link   string
	title  []byte
	colors map[int]string // OSC 10 to 19
}

// cursor is what DECSC saves, without the place.
type cursor struct {
	pen   pen
	sets  [4]byte
	shift byte
}

// NewTracker returns a tracker of a fresh terminal.
func NewTracker() *Tracker {
	t := &Tracker{}
	t.reset()
	return t
}

func (t *Tracker) reset() {
	title := t.title
	*t = Tracker{OnQuery: t.OnQuery, p: t.p, dec: map[int]bool{}, ansi: map[int]bool{}, colors: map[int]string{}}
	t.title = title // RIS keeps the title
}

// Write reads the next bytes of the stream.
func (t *Tracker) Write(b []byte) { t.p.Parse(b, t) }

// WriteToCut reads b up to the first place found where the stream may be cut:
// at ground, and outside of a synchronized update unless those don't matter. It
// returns how much it has read.
func (t *Tracker) WriteToCut(b []byte, anyGround bool) (n int, cut bool) {
	for rest := b; len(rest) > 0; {
		rest = t.p.step(rest, t)
		if t.p.Ground() && (anyGround || !t.Synchronized()) {
			return len(b) - len(rest), true
		}
	}
	return len(b), false
}

// Clone is a tracker of its own at the same place, which is at ground. It asks
// nothing.
func (t *Tracker) Clone() *Tracker {
	c := *t
	c.OnQuery, c.p = nil, Parser{}
	c.dec, c.ansi, c.colors = maps.Clone(t.dec), maps.Clone(t.ansi), maps.Clone(t.colors)
	for i := range c.kitty {
		c.kitty[i] = slices.Clone(t.kitty[i])
	}
	c.title = slices.Clone(t.title)
	return &c
}

// Filter returns a filter that goes on with what follows. Of a string that is
// too long to be kept, and has begun already, it lets nothing through.
func (t *Tracker) Filter() Filter {
	f := Filter{p: t.p, skip: t.p.long}
	f.p.raw = slices.Clone(t.p.raw)
	return f
}

// Ground is true where the stream may be cut.
func (t *Tracker) Ground() bool { return t.p.Ground() }

// Synchronized is true within a synchronized update (DEC mode 2026): a cut
// there would show half a frame.
func (t *Tracker) Synchronized() bool { return t.dec[2026] }

// Alternate is true while the alternate screen is shown.
func (t *Tracker) Alternate() bool { return t.alt != 0 }

// Title is the last title set.
func (t *Tracker) Title() string { return string(t.title) }

// Text is of Handler.
func (t *Tracker) Text(b []byte) {
	// IndexByte is several times faster than LastIndexByte, and both are rare.
	if bytes.IndexByte(b, 0x0e) < 0 && bytes.IndexByte(b, 0x0f) < 0 {
		return
	}
	out, in := bytes.LastIndexByte(b, 0x0e), bytes.LastIndexByte(b, 0x0f)
	switch {
	case out > in:
		t.shift = 1
	case in > out:
		t.shift = 0
	}
}

// Long is of Handler: no long string changes a mode.
func (t *Tracker) Long(Kind, []byte, bool, bool) {}

// Sequence is of Handler.
func (t *Tracker) Sequence(k Kind, raw []byte) {
	switch k {
	case CSI:
		t.csi(raw)
	case OSC:
		t.osc(raw)
	case Escape:
		t.escape(raw)
	}
	if t.OnQuery != nil && Query(k, raw) {
		t.OnQuery(k, raw)
	}
}

func (t *Tracker) escape(raw []byte) {
	switch {
	case len(raw) == 2:
		switch raw[1] {
		case 'c':
			t.reset()
		case '=':
			t.keypad = true
		case '>':
			t.keypad = false
		case '7':
			t.save()
		case '8':
			t.restore()
		}
	case len(raw) == 3:
		if i := bytes.IndexByte([]byte("()*+"), raw[1]); i >= 0 {
			t.sets[i] = raw[2]
			if raw[2] == 'B' {
				t.sets[i] = 0
			}
		}
	}
}

func (t *Tracker) csi(raw []byte) {
	switch raw[len(raw)-1] {
	case 'm', 'h', 'l', 'r', 's', 'u', 'q', 'p':
	default: // moves and erases: nothing to remember
		return
	}
	p, ok := parseCSI(raw)
	if !ok {
		return
	}
	switch {
	case p.is(0, "", 'm'):
		t.pen.apply(p.args)
	case p.is('?', "", 'h'), p.is('?', "", 'l'):
		p.each(func(n int) { t.mode(n, p.final == 'h') })
	case p.is(0, "", 'h'), p.is(0, "", 'l'):
		p.each(func(n int) { remember(t.ansi, n, p.final == 'h') })
	case p.is(0, "", 'r'):
		t.margin = string(raw)
		if len(p.args) == 0 {
			t.margin = ""
		}
	case p.is(0, "", 's') && t.dec[69]: // else it saves the cursor
		t.sides = string(raw)
	case p.is(0, "", 's') && len(p.args) == 0:
		t.save()
	case p.is(0, "", 'u') && len(p.args) == 0:
		t.restore()
	case p.is(0, " ", 'q'):
		t.style = string(raw)
		if p.num(0, 0) == 0 {
			t.style = ""
		}
	case p.is('>', "", 'm'):
		if p.num(0, 0) == 4 {
			t.other = string(raw)
			if p.num(1, 0) == 0 {
				t.other = ""
			}
		} else if len(p.args) == 0 {
			t.other = ""
		}
	case p.is('>', "", 'u'), p.is('<', "", 'u'), p.is('=', "", 'u'):
		t.kittyKeys(p)
	case p.is(0, "!", 'p'):
		t.soft()
	}
}

func (t *Tracker) mode(n int, on bool) {
	switch n {
	case 47, 1047, 1049:
		switch {
		case on && t.alt == 0:
			if n == 1049 {
				t.save()
			}
			t.alt = n
		case !on && t.alt != 0:
			t.alt = 0
			if n == 1049 {
				t.restore()
			}
		}
		return
	case 1048:
		if on {
			t.save()
		} else {
			t.restore()
		}
		return
	case 69:
		if !on {
			t.sides = ""
		}
	}
	remember(t.dec, n, on)
}

func remember(m map[int]bool, n int, on bool) {
	if _, known := m[n]; known || len(m) < maxModes {
		m[n] = on
	}
}

func (t *Tracker) save() { t.saved[t.screen()] = cursor{t.pen, t.sets, t.shift} }

func (t *Tracker) restore() {
	c := t.saved[t.screen()]
	t.pen, t.sets, t.shift = c.pen, c.sets, c.shift
}

// soft is DECSTR, as xterm does it.
func (t *Tracker) soft() {
	t.pen, t.margin, t.sides, t.keypad, t.shift = pen{}, "", "", false, 0
	t.sets = [4]byte{}
	for _, n := range []int{1, 6, 7, 25, 45, 69} { // autowrap: terminals differ, most keep it on
		delete(t.dec, n)
	}
	delete(t.ansi, 2)
	delete(t.ansi, 4)
	t.style = ""
}

// screen is the index of the shown screen's keyboard stack.
func (t *Tracker) screen() int {
	if t.alt != 0 {
		return 1
	}
	return 0
}

// kittyKeys follows the keyboard protocol: > pushes, < pops, = changes the flags.
func (t *Tracker) kittyKeys(p params) {
	s := t.screen()
	n := p.num(0, 0)
	switch p.private {
	case '>':
		t.kitty[s] = append(t.kitty[s], t.flags[s])
		if len(t.kitty[s]) > maxStack {
			t.kitty[s] = t.kitty[s][1:]
		}
		t.flags[s] = n
	case '<':
		for range max(1, min(n, maxStack)) {
			last := len(t.kitty[s]) - 1
			if last < 0 {
				t.flags[s] = 0
				break
			}
			t.flags[s], t.kitty[s] = t.kitty[s][last], t.kitty[s][:last]
		}
	case '=':
		switch p.num(1, 1) {
		case 1:
			t.flags[s] = n
		case 2:
			t.flags[s] |= n
		case 3:
			t.flags[s] &^= n
		}
	}
}

// keyboard is the flags in force.
func (t *Tracker) keyboard() int { return t.flags[t.screen()] }

func (t *Tracker) osc(raw []byte) {
	number, rest, ok := parseOSC(raw)
	if !ok {
		return
	}
	switch {
	case number == 0 || number == 2:
		t.title = append(t.title[:0], rest...)
	case number == 8:
		t.link = ""
		if _, uri, _ := bytes.Cut(rest, []byte{';'}); len(uri) > 0 {
			t.link = string(raw)
		}
	case number >= 10 && number <= 19 && !bytes.Equal(rest, []byte("?")):
		t.colors[number] = string(raw)
	case number >= 110 && number <= 119:
		delete(t.colors, number-100)
	}
}

// report is a mode's state as DECRQM wants it: 0 unknown, 1 set, 2 reset.
func (t *Tracker) report(n int) int {
	on, known := t.dec[n]
	switch {
	case n == 47 || n == 1047 || n == 1049:
		known, on = true, t.alt != 0
	case !known && initiallyOn(n):
		known, on = true, true
	case !known && slices.Contains([]int{1, 6, 9, 66, 69, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026}, n):
		known, on = true, false
	}
	switch {
	case !known:
		return 0
	case on:
		return 1
	}
	return 2
}

// initiallyOn: autorepeat, autowrap and the visible cursor.
func initiallyOn(n int) bool { return n == 7 || n == 8 || n == 25 }

// momentary modes act when they are set and are not a state to restore:
// 3 resizes, 2026 is left by its end.
func momentary(n int) bool { return n == 3 || n == 2026 }

// Preamble brings a terminal in any state to this stream's modes with an empty
// screen: what is sent before a backlog that begins at this point.
func (t *Tracker) Preamble() []byte {
	var b []byte
	// CAN ends whatever the terminal is in the middle of.
	b = append(b, "\x18\x1b[!p\x1b[?1049l\x1b[?69l\x1b[r\x1b[m\x1b[?6l\x1b[?7h\x1b[4l\x1b[?25h\x1b[H\x1b[2J"...)
	b = t.keys(b, 0)
	if t.alt != 0 {
		// 1049 saves what it restores when the program leaves the screen.
		b = t.saved[0].append(b)
		b = append(b, "\x1b[?"+strconv.Itoa(t.alt)+"h\x1b[m\x1b[H\x1b[2J"...)
		b = t.keys(b, 1)
	}
	b = cursor{t.pen, t.sets, t.shift}.append(b)
	if t.keypad {
		b = append(b, "\x1b="...)
	}
	b = append(b, t.style...)
	b = append(b, t.other...)
	for _, n := range slices.Sorted(maps.Keys(t.colors)) {
		b = append(b, t.colors[n]...)
	}
	if t.title != nil {
		b = append(append(append(b, "\x1b]2;"...), t.title...), bel)
	}
	for _, n := range slices.Sorted(maps.Keys(t.ansi)) {
		b = set(b, "\x1b[", n, t.ansi[n])
	}
	// Left and right margins need mode 69 first; origin mode homes the cursor.
	if t.dec[69] {
		b = append(append(b, "\x1b[?69h"...), t.sides...)
	}
	b = append(b, t.margin...)
	for _, n := range slices.Sorted(maps.Keys(t.dec)) {
		if n != 69 && !momentary(n) {
			b = set(b, "\x1b[?", n, t.dec[n])
		}
	}
	return append(b, t.link...)
}

// append sets character sets and pen from scratch.
func (c cursor) append(b []byte) []byte {
	for i, set := range c.sets {
		if set == 0 {
			set = 'B'
		}
		b = append(b, esc, "()*+"[i], set)
	}
	b = append(b, 0x0f-c.shift) // SI, or SO
	return c.pen.append(b)
}

// keys builds a keyboard stack from the bottom.
func (t *Tracker) keys(b []byte, s int) []byte {
	for i := range t.kitty[s] {
		v := t.flags[s]
		if i+1 < len(t.kitty[s]) {
			v = t.kitty[s][i+1]
		}
		if i == 0 && t.kitty[s][0] != 0 {
			b = append(b, "\x1b[="+strconv.Itoa(t.kitty[s][0])+"u"...)
		}
		b = append(b, "\x1b[>"+strconv.Itoa(v)+"u"...)
	}
	if len(t.kitty[s]) == 0 && t.flags[s] != 0 {
		b = append(b, "\x1b[="+strconv.Itoa(t.flags[s])+"u"...)
	}
	return b
}

func set(b []byte, intro string, n int, on bool) []byte {
	b = strconv.AppendInt(append(b, intro...), int64(n), 10)
	if on {
		return append(b, 'h')
	}
	return append(b, 'l')
}

// Undo brings a terminal that has shown this stream back to what a shell
// expects: the modes off that the stream turned on, the keyboard stacks popped,
// the main screen, a visible cursor.
func (t *Tracker) Undo() []byte {
	b := []byte{can}
	for s := 1; s >= 0; s-- {
		if s == 1 && t.alt == 0 {
			continue // its stack is out of reach, and out of force
		}
		if n := len(t.kitty[s]); n > 0 {
			b = append(b, "\x1b[<"+strconv.Itoa(n)+"u"...)
		}
		if t.flags[s] != 0 {
			b = append(b, "\x1b[=0u"...)
		}
		if s == 1 {
			b = set(b, "\x1b[?", t.alt, false)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(t.dec)) {
		if on := t.dec[n]; on != initiallyOn(n) && !momentary(n) {
			b = set(b, "\x1b[?", n, !on)
		}
	}
	if t.dec[2026] {
		b = set(b, "\x1b[?", 2026, false)
	}
	for _, n := range slices.Sorted(maps.Keys(t.ansi)) {
		if t.ansi[n] {
			b = set(b, "\x1b[", n, false)
		}
	}
	if t.other != "" {
		b = append(b, "\x1b[>4;0m"...)
	}
	if t.keypad {
		b = append(b, "\x1b>"...)
	}
	if t.style != "" {
		b = append(b, "\x1b[0 q"...)
	}
	for i, c := range t.sets {
		if c != 0 {
			b = append(b, esc, "()*+"[i], 'B')
		}
	}
	if t.shift != 0 {
		b = append(b, 0x0f)
	}
	if t.link != "" {
		b = append(b, "\x1b]8;;\x1b\\"...)
	}
	for _, n := range slices.Sorted(maps.Keys(t.colors)) {
		b = append(b, "\x1b]"+strconv.Itoa(n+100)+"\x1b\\"...)
	}
	if t.margin != "" || t.sides != "" {
		b = append(b, "\x1b7\x1b[r\x1b8"...) // resetting the margins homes the cursor
	}
	return append(b, "\x1b[m"...)
}
