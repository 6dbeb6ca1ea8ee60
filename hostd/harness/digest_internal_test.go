package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestDigest_IsOfEveryByte(t *testing.T) {
	defer goleak.VerifyNone(t)
	all := make([]byte, 3*chunk+100)
	for i := range all {
		all[i] = byte(i * i >> 3)
	}
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, len(all)), rapid.SampledFrom([]int{0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk})).Draw(t, "size")
		want := sha256.Sum256(all[:size])
		got, err := digest(t.Context(), bytes.NewReader(all), int64(size))
		if err != nil || got != hex.EncodeToString(want[:]) {
			t.Fatalf("%d bytes: %s, %v", size, got, err)
		}
	})
}

// endless gives zeros, and calls at at each read.
type endless struct{ at func() }

func (e endless) ReadAt(p []byte, _ int64) (int, error) { e.at(); return len(p), nil }

func TestDigest_AFileThatShrinksOrABadDiskOrTheEndOfTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	small := make([]byte, 2*chunk+7)
	if _, err := digest(t.Context(), bytes.NewReader(small), 5*chunk); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("shrunk: %v", err)
	}
	if _, err := digest(t.Context(), bytes.NewReader(nil), 5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("emptied: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := digest(ctx, endless{cancel}, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

func BenchmarkDigest(b *testing.B) {
	const size = 64 << 20
	r := bytes.NewReader(make([]byte, size))
	b.SetBytes(size)
	for b.Loop() {
		if _, err := digest(b.Context(), r, size); err != nil {
			b.Fatal(err)
		}
	}
}
