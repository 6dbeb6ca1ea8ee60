// Package seal makes what leaves the store opaque: cursors that only the asker
// can use again, and identifiers of journal entries that do not tell how many
// there are.
//
// Imports: messages/problem.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"sophia/messages/problem"
)

// KeySize is the length of a store's sealing key in bytes.
const KeySize = 32

// Sealer seals with one store's key. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
	ids  cipher.Block
}

// New makes a sealer from a key of KeySize bytes.
func New(key []byte) (*Sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	sub := sha256.Sum256(append([]byte("sophia id\x00"), key...))
	ids, err := aes.NewCipher(sub[:16])
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead, ids: ids}, nil
}

// Cursor seals a position. bind is everything that must be the same when it
// comes back: the connection and the query.
func (s *Sealer) Cursor(position []byte, bind string) string {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(position)+s.aead.Overhead())
	rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, position, []byte(bind)))
}

// Position opens a cursor. The error's code is cursor_invalid for every cursor
// that Cursor did not make for the same bind.
func (s *Sealer) Position(cursor, bind string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil && len(b) >= s.aead.NonceSize() {
		n := s.aead.NonceSize()
		if position, err := s.aead.Open(nil, b[:n], b[n:], []byte(bind)); err == nil {
			return position, nil
		}
	}
	return nil, problem.New("cursor_invalid", "this cursor does not belong to this query on this connection").
		WithHint("Pass a cursor back unchanged with the same arguments, or leave it out to start again.")
}

// ID is the identifier of a number, e.g. mut-1b2c3d4e5f607182. The numbers
// behind two identifiers can't be compared.
func (s *Sealer) ID(prefix string, n uint64) string {
	l, r := uint32(n>>32), uint32(n)
	for round := range byte(4) {
		l, r = r, l^s.round(round, r)
	}
	return prefix + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(l)<<32|uint64(r)))
}

// Number undoes ID. ok is false for what is no identifier.
func (s *Sealer) Number(prefix, id string) (n uint64, ok bool) {
	rest, found := strings.CutPrefix(id, prefix)
	if !found || len(rest) != 16 || rest != strings.ToLower(rest) {
		return 0, false
	}
	b, err := hex.DecodeString(rest)
	if err != nil {
		return 0, false
	}
	l, r := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	for round := range byte(4) {
		l, r = r^s.round(3-round, l), l
	}
	return uint64(l)<<32 | uint64(r), true
}

// round is the round function of a four-round Feistel network (Luby and
// Rackoff 1988), which makes a permutation of 64 bits out of it.
func (s *Sealer) round(n byte, half uint32) uint32 {
	var in, out [aes.BlockSize]byte
	in[0] = n
	binary.BigEndian.PutUint32(in[1:], half)
	s.ids.Encrypt(out[:], in[:])
	return binary.BigEndian.Uint32(out[:])
}
