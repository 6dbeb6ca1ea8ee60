package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sophia/actors/isolates/wire"
)

func frames() *rapid.Generator[wire.Frame] {
	return rapid.Custom(func(t *rapid.T) wire.Frame {
		f := wire.Frame{
			Kind: wire.Kind(rapid.IntRange(int(wire.Ready), int(wire.Failed)).Draw(t, "kind")),
			OK:   rapid.Bool().Draw(t, "ok"),
			ID:   rapid.Uint32().Draw(t, "id"),
			Name: rapid.StringN(0, 60, wire.MaxName).Draw(t, "name"),
		}
		if p := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"); len(p) > 0 {
			f.Payload = p
		}
		return f
	})
}

func equal(a, b wire.Frame) bool {
	return a.Kind == b.Kind && a.OK == b.OK && a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Payload, b.Payload)
}

func TestFrame_ReadsBackWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(frames(), 0, 8).Draw(t, "frames")
		var stream bytes.Buffer
		for _, f := range sent {
			if err := wire.Write(&stream, f); err != nil {
				t.Fatal(err)
			}
		}
		whole := bytes.Clone(stream.Bytes())
		for _, want := range sent {
			got, err := wire.Read(&stream)
			if err != nil || !equal(got, want) {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
		}
		if _, err := wire.Read(&stream); err != io.EOF {
			t.Fatalf("after the last frame: %v", err)
		}
		if len(whole) == 0 {
			return
		}
		// Cut anywhere, the reader never invents a frame.
		cut := bytes.NewReader(whole[:rapid.IntRange(0, len(whole)-1).Draw(t, "cut")])
		for i := 0; ; i++ {
			got, err := wire.Read(cut)
			if err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("cut stream: %v", err)
				}
				return
			}
			if !equal(got, sent[i]) {
				t.Fatalf("cut stream gave %+v, want %+v", got, sent[i])
			}
		}
	})
}

func TestFrame_LengthIsCheckedBeforeMemoryIsTaken(t *testing.T) {
	var h [4]byte
	for _, n := range []uint32{0, 7, wire.MaxFrame - 3, 1 << 31, 1<<32 - 1} {
		binary.LittleEndian.PutUint32(h[:], n)
		// Nothing follows the length: a reader that allocated first would wait for it.
		if _, err := wire.Read(bytes.NewReader(h[:])); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("length %d: %v", n, err)
		}
	}
}

func TestFrame_WriterRefusesWhatTheReaderWould(t *testing.T) {
	for name, f := range map[string]wire.Frame{
		"no kind":      {},
		"unknown kind": {Kind: wire.Failed + 1},
		"long name":    {Kind: wire.Call, Name: strings.Repeat("x", wire.MaxName+1)},
		"large":        {Kind: wire.Done, Payload: make([]byte, wire.MaxFrame)},
	} {
		if err := wire.Write(io.Discard, f); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []wire.Frame{
		{Kind: wire.Ready, Payload: []byte(`{"heap_limit":8388608}`)},
		{Kind: wire.Call, ID: 7, Name: "sophia.query_knowledge", Payload: []byte(`{"limit":3}`)},
		{Kind: wire.Result, ID: 7, OK: true, Payload: []byte(`{"items":[],"total":0}`)},
		{Kind: wire.Stop, Name: "timeout"},
	} {
		b, err := wire.Append(nil, s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			at := len(b) - r.Len()
			frame, err := wire.Read(r)
			if err != nil {
				if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, wire.ErrMalformed) {
					t.Fatalf("untyped error %v", err)
				}
				return
			}
			again, err := wire.Append(nil, frame)
			if err != nil || !bytes.Equal(again, b[at:len(b)-r.Len()]) {
				t.Fatalf("%+v encodes to other bytes: %v", frame, err)
			}
		}
	})
}
