package channel

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"sophia/messages/problem"
	"sophia/messages/secret"
)

func encode(t testing.TB, f Frame) []byte {
	t.Helper()
	b, err := f.append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func secretOf(t testing.TB, b []byte) *secret.Secret {
	t.Helper()
	s, err := secret.New(append([]byte(nil), b...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFrame_RoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := Kind(rapid.ByteRange(1, byte(lastKind)).Draw(rt, "kind"))
		body := rapid.SliceOfN(rapid.Byte(), 0, MaxBody).Draw(rt, "body")
		bytesOf := rapid.SliceOfN(rapid.Byte(), 0, MaxSecret).Draw(rt, "secret")
		f := Frame{Kind: kind, Body: body}
		if len(bytesOf) > 0 {
			f.Secret = secretOf(t, bytesOf)
			defer f.Zero()
		}
		wire := encode(t, f)
		got, err := parse(wire)
		if err != nil {
			rt.Fatal(err)
		}
		defer got.Zero()
		if got.Kind != kind || !bytes.Equal(got.Body, body) || (got.Secret == nil) != (len(bytesOf) == 0) {
			rt.Fatalf("got %v %d bytes", got.Kind, len(got.Body))
		}
		if got.Secret != nil {
			if !got.Secret.Equal(bytesOf) {
				rt.Fatal("another secret came out")
			}
			if !bytes.Equal(wire[len(wire)-len(bytesOf):], make([]byte, len(bytesOf))) {
				rt.Fatal("the secret is still in the packet's buffer")
			}
		}
	})
}

func TestFrame_EveryCutAndEveryAdditionIsRefused(t *testing.T) {
	f := Frame{Kind: Envelope, Body: []byte(`{"launch":"lp-1"}`), Secret: secretOf(t, []byte("handle"))}
	defer f.Zero()
	whole := encode(t, f)
	for n := range whole {
		if got, err := parse(append([]byte(nil), whole[:n]...)); problem.CodeOf(err) != "frame_malformed" {
			t.Errorf("cut to %d bytes: %v %v", n, got, err)
		}
	}
	if _, err := parse(append(append([]byte(nil), whole...), 0)); problem.CodeOf(err) != "frame_malformed" {
		t.Errorf("a byte more: %v", err)
	}
}

func TestFrame_NothingAProgramPrintsIsAFrame(t *testing.T) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":"x","result":{}}` + "\n", "sophia-wrapper: no\n", "\xef\xbb\xbf{}"} {
		if _, err := parse([]byte(s)); problem.CodeOf(err) != "frame_malformed" {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	s := secretOf(f, []byte("handle"))
	f.Add(encode(f, Frame{Kind: Challenge, Body: make([]byte, NonceSize)}))
	f.Add(encode(f, Frame{Kind: Envelope, Body: []byte(`{"launch":"lp-1","lease":"ls-1"}`), Secret: s}))
	f.Add(encode(f, Frame{Kind: Refused, Body: []byte(`{"code":"peer_gone","message":"gone"}`)}))
	f.Add([]byte("{\"jsonrpc\":\"2.0\"}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		given := append([]byte(nil), b...)
		got, err := parse(b)
		if err != nil {
			if problem.CodeOf(err) != "frame_malformed" {
				t.Fatalf("an error without the code: %v", err)
			}
			return
		}
		defer got.Zero()
		again, err := got.append(nil)
		if err != nil || !bytes.Equal(again, given) {
			t.Fatalf("what was accepted is not what would be sent: %x, %x, %v", given, again, err)
		}
	})
}
