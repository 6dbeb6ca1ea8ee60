package ownerkey

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sophia/messages/problem"
	"sophia/messages/secret"
)

// maxFile is far above the 119 bytes of a PKCS #8 ed25519 key in PEM.
const maxFile = 4 << 10

const pemType = "PRIVATE KEY" // PKCS #8, RFC 5958

// Key is the owner's key. The private half lives in a secret and is expanded
// only for the moment of a signature.
type Key struct {
	seed   *secret.Secret
	public ed25519.PublicKey
}

// Load reads the key at path. It refuses, with the code owner_key_not_private,
// a file that is not a regular file of this user with mode 0600 or tighter;
// owner_key_missing when there is none; owner_key_malformed when the content is
// no ed25519 key.
func Load(path string) (*Key, error) {
	// O_NONBLOCK: a FIFO put there must not hang the program.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem.Wrap(err, "owner_key_missing", "there is no owner key at %s", path).
			WithHint("Start Sophia once with: sophia up")
	case errors.Is(err, unix.ELOOP):
		return nil, notPrivate(path, "it is a symbolic link")
	case err != nil:
		return nil, problem.Wrap(err, "owner_key_not_read", "the owner key %s can't be read", path)
	}
	defer f.Close()
	if err := check(f, path); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	defer clear(text)
	if err != nil {
		return nil, problem.Wrap(err, "owner_key_not_read", "the owner key %s can't be read", path)
	}
	return parse(text, path)
}

func check(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return problem.Wrap(err, "owner_key_not_read", "the owner key %s can't be read", path)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return notPrivate(path, "it is not a regular file")
	case int(st.Uid) != os.Geteuid():
		return notPrivate(path, "it belongs to somebody else")
	case st.Mode&0o077 != 0:
		return notPrivate(path, "other users can get at it").WithHint("Run: chmod 600 %s", path)
	}
	return nil
}

func notPrivate(path, why string) *problem.Error {
	return problem.New("owner_key_not_private", "the owner key %s is not private: %s", path, why).
		WithHint("Move it away; sophia up makes a new one.")
}

func parse(text []byte, path string) (*Key, error) {
	malformed := problem.New("owner_key_malformed", "%s holds no ed25519 key", path).
		WithHint("Move it away; sophia up makes a new one.")
	if len(text) > maxFile {
		return nil, malformed
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, malformed
	}
	defer clear(block.Bytes)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, malformed
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, malformed
	}
	return fromPrivate(private)
}

// fromPrivate takes the private key over and zeroes it.
func fromPrivate(private ed25519.PrivateKey) (*Key, error) {
	public := append(ed25519.PublicKey(nil), private.Public().(ed25519.PublicKey)...)
	seed, err := secret.New(private[:ed25519.SeedSize])
	clear(private)
	if err != nil {
		return nil, err
	}
	return &Key{seed: seed, public: public}, nil
}

// LoadOrCreate is Load, and makes a key where there is none. Of two programs
// that create at the same time one wins and both use its key.
func LoadOrCreate(path string) (*Key, error) {
	key, err := Load(path)
	if problem.CodeOf(err) != "owner_key_missing" {
		return key, err
	}
	if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, problem.Wrap(err, "owner_key_not_written", "the owner key %s can't be written", path)
	}
	return Load(path)
}

// create writes the whole file under another name, syncs it, and links it into
// place, so that a crash leaves either no key or a complete one.
func create(path string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	defer clear(private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	defer clear(der)
	text := pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
	defer clear(text)

	f, err := os.CreateTemp(filepath.Dir(path), ".owner-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// Public is the public half, which verifies.
func (k *Key) Public() crypto.PublicKey { return k.public }

// ID names the key: the first 32 hex digits of the SHA-256 of its public half.
func (k *Key) ID() string { return IDOf(k.public) }

// IDOf is ID for a public key alone.
func IDOf(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:16])
}

// Sign makes Key a crypto.Signer. Ed25519 signs the message itself, so opts
// must say no hash.
func (k *Key) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != nil && opts.HashFunc() != crypto.Hash(0) {
		return nil, problem.New("owner_key_misused", "an ed25519 key signs messages, not digests")
	}
	var signature []byte
	err := k.seed.Use(func(seed []byte) error {
		private := ed25519.NewKeyFromSeed(seed)
		defer clear(private)
		signature = ed25519.Sign(private, message)
		return nil
	})
	return signature, err
}

// Close zeroes the private half.
func (k *Key) Close() { k.seed.Zero() }
