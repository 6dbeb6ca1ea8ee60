// Package secret has the one type for credentials: it can't be printed,
// marshalled or compared with ==, lives outside the Go heap in locked memory,
// and is zeroed when it is dropped.
package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// ErrGone is returned where a secret was already zeroed.
var ErrGone = errors.New("secret: already zeroed")

var live atomic.Int64

// Live is how many secrets of this process are not yet zeroed.
func Live() int64 { return live.Load() }

// Secret holds bytes that nobody may see by accident. Make one with New,
// Random or Read; drop it with Zero. The zero value is an empty secret.
// A Secret must not be copied: it is passed as *Secret.
type Secret struct {
	_  [0]func() // no ==
	mu sync.Mutex
	b  []byte // a mapping of its own, or nil
	n  int
}

// New moves b into locked memory and zeroes b.
func New(b []byte) (*Secret, error) {
	s, err := alloc(len(b))
	if err != nil {
		return nil, err
	}
	copy(s.b, b)
	clear(b)
	return s, nil
}

// Random returns n random bytes, base64url-encoded without padding after the
// given prefix, as bearers and tokens are written.
func Random(prefix string, n int) (*Secret, error) {
	raw := make([]byte, n)
	rand.Read(raw)
	out := make([]byte, len(prefix)+base64.RawURLEncoding.EncodedLen(n))
	copy(out, prefix)
	base64.RawURLEncoding.Encode(out[len(prefix):], raw)
	clear(raw)
	return New(out)
}

// Read reads exactly n bytes from r straight into locked memory.
func Read(r io.Reader, n int) (*Secret, error) {
	s, err := alloc(n)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r, s.b[:n]); err != nil {
		s.Zero()
		return nil, err
	}
	return s, nil
}

func alloc(n int) (*Secret, error) {
	page := syscall.Getpagesize()
	size := (max(n, 1) + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, err
	}
	// Best effort: RLIMIT_MEMLOCK may be small; the bytes stay out of core
	// files either way.
	_ = syscall.Mlock(b)
	_ = syscall.Madvise(b, madvDontDump)
	_ = syscall.Madvise(b, syscall.MADV_DONTFORK)
	s := &Secret{b: b, n: n}
	live.Add(1)
	runtime.SetFinalizer(s, (*Secret).Zero)
	return s, nil
}

const madvDontDump = 16 // MADV_DONTDUMP, madvise(2)

// Use calls f with the bytes. f must not keep them.
func (s *Secret) Use(f func(b []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.b == nil {
		return ErrGone
	}
	return f(s.b[:s.n])
}

// Clone returns a second secret with the same bytes.
func (s *Secret) Clone() (*Secret, error) {
	var c *Secret
	err := s.Use(func(b []byte) error {
		var err error
		if c, err = alloc(len(b)); err == nil {
			copy(c.b, b)
		}
		return err
	})
	return c, err
}

// SHA256 is the digest of the bytes: what is stored in place of a bearer.
func (s *Secret) SHA256() (sum [32]byte, err error) {
	err = s.Use(func(b []byte) error { sum = sha256.Sum256(b); return nil })
	return sum, err
}

// Equal compares in constant time.
func (s *Secret) Equal(b []byte) bool {
	same := false
	_ = s.Use(func(mine []byte) error { same = subtle.ConstantTimeCompare(mine, b) == 1; return nil })
	return same
}

// Zero overwrites the bytes and gives the memory back. It may be called again.
func (s *Secret) Zero() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.b == nil {
		return
	}
	clear(s.b)
	_ = syscall.Munmap(s.b)
	s.b, s.n = nil, 0
	live.Add(-1)
	runtime.SetFinalizer(s, nil)
}

// Redacted is what every way of printing a secret shows.
const Redacted = "[secret]"

func (s *Secret) String() string               { return Redacted }
func (s *Secret) GoString() string             { return Redacted }
func (s *Secret) LogValue() slog.Value         { return slog.StringValue(Redacted) }
func (s *Secret) MarshalJSON() ([]byte, error) { return nil, errors.New("secret: refusing to marshal") }
func (s *Secret) MarshalText() ([]byte, error) { return nil, errors.New("secret: refusing to marshal") }
func (s *Secret) MarshalBinary() ([]byte, error) {
	return nil, errors.New("secret: refusing to marshal")
}
func (s *Secret) GobEncode() ([]byte, error) { return nil, errors.New("secret: refusing to marshal") }
