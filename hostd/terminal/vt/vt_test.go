package vt_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/hostd/terminal/vt"
)

// seen records what a parser tells, texts joined.
type seen struct {
	all  []byte
	list []string
	text []byte
}

func (s *seen) flush() {
	if len(s.text) > 0 {
		s.list = append(s.list, fmt.Sprintf("text %q", s.text))
		s.text = nil
	}
}
func (s *seen) Text(b []byte) { s.all = append(s.all, b...); s.text = append(s.text, b...) }
func (s *seen) Sequence(k vt.Kind, raw []byte) {
	s.flush()
	s.all = append(s.all, raw...)
	s.list = append(s.list, fmt.Sprintf("%d %q", k, raw))
}
func (s *seen) Long(k vt.Kind, b []byte, first, last bool) {
	s.flush()
	s.all = append(s.all, b...)
	if first || last {
		s.list = append(s.list, fmt.Sprintf("long %d %v %v", k, first, last))
	}
}

func parse(b []byte, chunks func(left int) int) *seen {
	var p vt.Parser
	s := &seen{}
	for len(b) > 0 {
		n := chunks(len(b))
		p.Parse(b[:n], s)
		b = b[n:]
	}
	s.all = append(s.all, p.Rest()...)
	s.flush()
	return s
}

func whole(n int) int { return n }
func single(int) int  { return 1 }

func TestParser_LosesNothingAndDoesNotMindCuts(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, in []byte) {
		a, b := parse(in, whole), parse(in, single)
		if !bytes.Equal(a.all, in) {
			t.Fatalf("%q came out as %q", in, a.all)
		}
		if !bytes.Equal(b.all, in) || strings.Join(a.list, "\n") != strings.Join(b.list, "\n") {
			t.Fatalf("%q in single bytes:\n%v\nwhole:\n%v", in, b.list, a.list)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, []byte(stream(20, asks).Draw(t, "s"))) })
	rapid.Check(t, func(t *rapid.T) {
		check(t, []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"\x1b", "[", "]", "P", "\\", "\a", "\x18", "m", ";", "5", "é"[:1], "é"[1:], "a", "漢", "\n", strings.Repeat("z", 5000)})).Draw(t, "s"), "")))
	})
}

func TestParser_GroundIsOutsideOfSequencesAndCharacters(t *testing.T) {
	for in, want := range map[string]bool{
		"": true, "a": true, "\x1b": false, "\x1b[": false, "\x1b[1;2": false, "\x1b[m": true, "\x1b]0;t": false, "\x1b]0;t\a": true,
		"\x1b]0;t\x1b": false, "\x1b]0;t\x1b\\": true, "\x1bP\a": false, "é"[:1]: false, "é": true, "漢"[:2]: false, "😀"[:3]: false,
		"😀": true, "\x1b(": false, "\x1b(B": true, "\x1b7": true, "a\x80": true, "漢"[:1] + "x": true, "\x1b[3\x18": true, "\x1b[3\x1b[m": true,
	} {
		var p vt.Parser
		p.Parse([]byte(in), &seen{})
		if p.Ground() != want {
			t.Errorf("%q: ground is %v", in, p.Ground())
		}
		p = vt.Parser{}
		for i := range len(in) {
			p.Parse([]byte{in[i]}, &seen{})
		}
		if p.Ground() != want {
			t.Errorf("%q byte by byte: ground is %v", in, p.Ground())
		}
	}
}

// A terminal that gets the preamble of a prefix and then the rest shows what a
// terminal shows that got everything, once the program has painted again.
func TestTracker_PreambleStandsForAllThatCameBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := stream(25).Draw(t, "before"), stream(15).Draw(t, "after")
		tr := vt.NewTracker()
		tr.Write([]byte(before))
		if !tr.Ground() {
			t.Fatal("the generator ends inside a sequence")
		}
		want := screen([]byte(before + repaint + after))
		got := screen(append(tr.Preamble(), repaint+after...))
		if got != want {
			t.Fatalf("preamble %q\ngot\n%s\nwant\n%s", tr.Preamble(), got, want)
		}
	})
}

// And what it says survives being said again.
func TestTracker_PreambleIsItsOwnPreamble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := vt.NewTracker(), vt.NewTracker()
		a.Write([]byte(stream(40).Draw(t, "stream")))
		b.Write(a.Preamble())
		c := vt.NewTracker()
		c.Write(b.Preamble())
		if !bytes.Equal(b.Preamble(), c.Preamble()) {
			t.Fatalf("%q\n%q", b.Preamble(), c.Preamble())
		}
	})
}

func TestTracker_FollowsWhatIsSetOnce(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[?1049h\x1b[?25l":    "\x1b[?1049h",
		"\x1b[?2004h":             "\x1b[?2004h",
		"\x1b[>5u\x1b[>7u":        "\x1b[>5u\x1b[>7u",
		"\x1b[>5u\x1b[<u\x1b[>3u": "\x1b[>3u",
		"\x1b[=9u":                "\x1b[=9u",
		"\x1b[>4;2m":              "\x1b[>4;2m",
		"\x1b[5;9r":               "\x1b[5;9r",
		"\x1b[1;38;5;9mx\x1b[22m": "\x1b[0;38;5;9m",
		"\x1b]2;hello\x1b\\":      "\x1b]2;hello\a",
		"\x1b]11;#102030\a":       "\x1b]11;#102030\a",
		"\x1b[?69h\x1b[3;9s":      "\x1b[?69h\x1b[3;9s",
		"\x1b[6 q":                "\x1b[6 q",
		"\x1b[?1\n006h":           "\x1b[?1006h",
		strings.Repeat("x", 9000) + "\x1b[?1004h":               "\x1b[?1004h",
		"\x1b]2;" + strings.Repeat("t", 9000) + "\a\x1b[?1004h": "\x1b[?1004h",
	} {
		tr := vt.NewTracker()
		tr.Write([]byte(in))
		if p := string(tr.Preamble()); !strings.Contains(p, want) {
			t.Errorf("after %.40q: %q lacks %q", in, p, want)
		}
	}
	for _, in := range []string{"\x1b[?2004h\x1b[?2004l\x1bc", "\x1b[>5u\x1bc", "\x1b[5;9r\x1b[r", "\x1b[1m\x1b[m"} {
		tr, fresh := vt.NewTracker(), vt.NewTracker()
		tr.Write([]byte(in))
		if !bytes.Equal(tr.Preamble(), fresh.Preamble()) {
			t.Errorf("after %q: %q", in, tr.Preamble())
		}
	}
}

func TestTracker_UndoLeavesTheViewersTerminalAsAShellExpects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := stream(40).Draw(t, "stream")
		tr := vt.NewTracker()
		tr.Write([]byte(in))
		tr.Write(tr.Undo())
		rest := string(tr.Undo())
		if rest != "\x18\x1b[m" {
			t.Fatalf("after the undo there is still %q to undo", rest)
		}
		after := screen(append([]byte(in), append(undo(in), "\x1b[Hshell $ "...)...))
		if !strings.Contains(after, "hidden=false") || !strings.Contains(after, "alt=false") {
			t.Fatalf("the shell finds: %s", after)
		}
	})
}

func undo(in string) []byte {
	tr := vt.NewTracker()
	tr.Write([]byte(in))
	return tr.Undo()
}

func TestQuery_IsStrippedAndNothingElse(t *testing.T) {
	questions := []string{"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n", "\x1b[>q", "\x1b[>0q", "\x1b[?u",
		"\x1b[?2026$p", "\x1b[4$p", "\x1b[14t", "\x1b[16t", "\x1b[18t", "\x1b[21t", "\x1b]10;?\a", "\x1b]11;?\x1b\\", "\x1b]4;1;?\a", "\x1b]52;c;?\a", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1bZ", "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"}
	others := []string{"\x1b[?1c", "\x1b[m", "\x1b[H", "\x1b[!p", "\x1b[2 q", "\x1b[>1u", "\x1b[u", "\x1b[22;0t", "\x1b[8;24;80t", "\x1b]10;#fff\a", "\x1b]0;what?\a", "\x1b]8;;http://x/?\a", "\x1bP1$r\x1b\\", "\x1b_Ga=T;AAAA\x1b\\", "\x1b[4m", "\x1b[>4;2m"}
	for _, q := range questions {
		f := vt.Filter{Drop: vt.Query}
		if got := f.Append(nil, []byte("a"+q+"b")); string(got) != "ab" {
			t.Errorf("%q was not stripped: %q", q, got)
		}
	}
	f := vt.Filter{Drop: vt.Query}
	if got := f.Append(nil, []byte("\x1b[\x1b[6nword")); string(got) != "word" {
		t.Errorf("a void sequence came to life: %q", got)
	}
	for _, o := range others {
		f := vt.Filter{Drop: vt.Query}
		if got := f.Append(nil, []byte("a"+o+"b")); string(got) != "a"+o+"b" {
			t.Errorf("%q was taken for a question: %q", o, got)
		}
	}
}

// Whoever replays a stripped stream into a terminal gets no answer out of it.
func TestQuery_StrippedStreamShowsTheSameScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(stream(25, asks, asks).Draw(t, "stream"))
		f := vt.Filter{Drop: vt.Query}
		out := f.Append(nil, in)
		if got, want := screen(out), screen(in); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		again := vt.NewTracker()
		again.OnQuery = func(_ vt.Kind, raw []byte) { t.Fatalf("still asks %q", raw) }
		again.Write(out)
	})
}

func TestFilter_DropsALongClipboardSequence(t *testing.T) {
	f := vt.Filter{Drop: vt.Clipboard}
	in := "a\x1b]52;c;" + strings.Repeat("QUFB", 5000) + "\x1b\\b\x1b]0;" + strings.Repeat("t", 6000) + "\ac"
	var got []byte
	for i := 0; i < len(in); i += 777 {
		got = f.Append(got, []byte(in[i:min(len(in), i+777)]))
	}
	if want := "ab\x1b]0;" + strings.Repeat("t", 6000) + "\ac"; string(got) != want {
		t.Errorf("got %d bytes, want %d: %.80q", len(got), len(want), got)
	}
}

func TestAnswer_IsWhatATerminalSays(t *testing.T) {
	me := vt.Terminal{Rows: 24, Cols: 80, Version: "sophia(1)"}
	tr := vt.NewTracker()
	tr.Write([]byte("\x1b[?2004h\x1b[>5u"))
	for q, want := range map[string]string{
		"\x1b[c": "\x1b[?62;22c", "\x1b[6n": "\x1b[1;1R", "\x1b[5n": "\x1b[0n", "\x1b[?2004$p": "\x1b[?2004;1$y", "\x1b[?25$p": "\x1b[?25;1$y",
		"\x1b[?1000$p": "\x1b[?1000;2$y", "\x1b[?7777$p": "\x1b[?7777;0$y", "\x1b[>q": "\x1bP>|sophia(1)\x1b\\", "\x1b[?u": "\x1b[?5u",
		"\x1b]11;?\a": "\x1b]11;rgb:0000/0000/0000\a", "\x1b]10;?\x1b\\": "\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\", "\x1b[18t": "\x1b[8;24;80t",
		"\x1b]52;c;?\a": "", "\x1b[?64n": "",
	} {
		got := "not a query"
		asker := vt.NewTracker()
		asker.OnQuery = func(k vt.Kind, raw []byte) { got = me.Answer(k, raw, tr) }
		asker.Write([]byte(q))
		if got != want {
			t.Errorf("to %q: %q, want %q", q, got, want)
		}
	}
}

func TestPlain_IsWhatAPersonReads(t *testing.T) {
	got := vt.Plain([]byte("\x1b[1mBold\x1b[m text\r\n\x1b]0;t\aerror: é\r50%\r100%\n\x1b[31mend"))
	if want := "Bold text\nerror: é\n50%\n100%\nend"; string(got) != want {
		t.Errorf("got %q", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2;3r\x1b[38;2;1;2;3mhi\x1b]0;t\a\x1bP+q41\x1b\\"))
	f.Add([]byte("\x1b[>99999999999999999999u\x1b[<9999u\x1b[?1;2;3;4;5h"))
	f.Add([]byte("\x1b]4;\x1b[;;;;;;m\xff\xfe\x80\x1b_"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, c := vt.NewTracker(), vt.NewTracker()
		me := vt.Terminal{Rows: 1, Cols: 1}
		a.OnQuery = func(k vt.Kind, raw []byte) { me.Answer(k, raw, a) }
		a.Write(b)
		for i := range b {
			c.Write(b[i : i+1])
		}
		if !bytes.Equal(a.Preamble(), c.Preamble()) || a.Ground() != c.Ground() {
			t.Errorf("cutting the stream changes what is tracked:\n%q\n%q", a.Preamble(), c.Preamble())
		}
		a.Undo()
		keep := vt.Filter{Drop: func(vt.Kind, []byte) bool { return false }}
		kept := vt.NewTracker()
		out := keep.Append(nil, b)
		kept.Write(out)
		if whole := keep.Ground() && a.Ground(); whole && !bytes.Equal(kept.Preamble(), a.Preamble()) {
			t.Errorf("a filter that drops nothing changed %q into %q", b, out)
		}
		vt.Plain(b)
	})
}

func BenchmarkTracker(b *testing.B) {
	for name, data := range map[string]string{
		"text": strings.Repeat("line 0000 "+strings.Repeat("x", 60)+"\r\n", 900),
		"tui":  strings.Repeat("\x1b[12;1H\x1b[38;5;245m│\x1b[39m some words here, as in a list of things \x1b[1mbold\x1b[22m\x1b[K", 700),
	} {
		b.Run(name, func(b *testing.B) {
			tr := vt.NewTracker()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				tr.Write([]byte(data))
			}
		})
	}
}
