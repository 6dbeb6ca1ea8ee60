package ownerapi

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"time"

	"github.com/remitly-oss/httpsig-go"

	"sophia/hostd/ownerkey"
	"sophia/messages/problem"
)

// signatureTag keeps a signature made for anything else from being one for the
// owner API (RFC 9421, section 2.3).
const signatureTag = "sophia-owner"

// signatureLife is how old a signature may be. The library allows a minute of
// skew into the future on top of it.
const (
	signatureLife = time.Minute
	signatureSkew = time.Minute
)

// signedFields are covered by every signature. @target-uri is not among them:
// httpsig-go v1.2.0 builds it from URL.RawPath, which is empty for nearly every
// path, so it would not cover the path at all.
func signedFields() []httpsig.SignedField {
	return httpsig.Fields("@method", "@path", "@query", "content-digest", InstanceHeader)
}

// newSigner makes a signer for the owner's key.
func newSigner(key *ownerkey.Key) (*httpsig.Signer, error) {
	return httpsig.NewSigner(httpsig.SigningProfile{
		Algorithm: httpsig.Algo_ED25519,
		Digest:    httpsig.DigestSHA256,
		Fields:    signedFields(),
		Metadata:  []httpsig.Metadata{httpsig.MetaCreated, httpsig.MetaNonce, httpsig.MetaKeyID, httpsig.MetaTag},
	}, httpsig.SigningKey{
		Opts:      httpsig.SigningKeyOpts{Signer: key},
		MetaKeyID: key.ID(),
		MetaTag:   signatureTag,
	})
}

// ownerOnly knows one key.
type ownerOnly struct {
	id  string
	key ed25519.PublicKey
}

func (o ownerOnly) FetchByKeyID(_ context.Context, _ http.Header, id string) (httpsig.KeySpecer, error) {
	if id != o.id {
		return nil, problem.New("owner_key_unknown", "the request is signed with key %q, which is not this daemon's owner's", id)
	}
	return httpsig.KeySpec{KeyID: o.id, Algo: httpsig.Algo_ED25519, PubKey: o.key}, nil
}

func (o ownerOnly) Fetch(context.Context, http.Header, httpsig.MetadataProvider) (httpsig.KeySpecer, error) {
	return nil, problem.New("owner_key_unknown", "the signature names no key")
}
