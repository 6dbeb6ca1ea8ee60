package ownerapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/remitly-oss/httpsig-go"

	"sophia/hostd/ownerkey"
	"sophia/messages/problem"
)

// maxNonces bounds the memory of nonces; only requests with a good signature
// take a place.
const maxNonces = 1 << 17

// verifier decides whether a request is the owner's.
type verifier struct {
	signatures *httpsig.Verifier
	instance   string

	mu     sync.Mutex
	nonces map[string]time.Time // until when each must be remembered
	swept  time.Time
}

func newVerifier(public ed25519.PublicKey) (*verifier, error) {
	signatures, err := httpsig.NewVerifier(ownerOnly{ownerkey.IDOf(public), public}, httpsig.VerifyProfile{
		SignatureLabel:       httpsig.DefaultSignatureLabel,
		RequiredFields:       signedFields(),
		RequiredMetadata:     []httpsig.Metadata{httpsig.MetaCreated, httpsig.MetaNonce, httpsig.MetaKeyID, httpsig.MetaTag},
		AllowedAlgorithms:    []httpsig.Algorithm{httpsig.Algo_ED25519},
		CreatedValidDuration: signatureLife,
	})
	if err != nil {
		return nil, err
	}
	return &verifier{signatures: signatures, instance: rand.Text(), nonces: map[string]time.Time{}}, nil
}

// check returns nil when the request is the owner's, made for this run of the
// daemon, and not seen before. It reads the body, which must be bounded
// already, and puts it back.
func (v *verifier) check(r *http.Request) *problem.Error {
	// The library compares decoded paths; a path with a second spelling would
	// let one signature stand for two.
	if r.URL.RawPath != "" {
		return problem.New("path_not_canonical", "the path is not in its plain spelling")
	}
	if r.Header.Get("Signature") == "" || r.Header.Get("Signature-Input") == "" {
		return problem.New("owner_signature_required", "every owner request must be signed with the owner's key (RFC 9421)").
			WithHint("Use the sophia command, which signs.")
	}
	result, err := v.verify(r)
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return problem.New("body_too_large", "the body is over %d bytes", tooLarge.Limit)
		}
		return problem.Wrap(err, "owner_signature_invalid", "the signature does not hold for this request").
			WithHint("Check that both sides use the same home, and the clock.")
	}
	tag, err := result.Tag()
	if err != nil || tag != signatureTag {
		return problem.New("owner_signature_invalid", "the signature was made for something else")
	}
	nonce, err := result.Nonce()
	if err != nil || len(nonce) < 16 || len(nonce) > 128 {
		return problem.New("owner_signature_invalid", "the nonce must have 16 to 128 characters")
	}
	if subtle.ConstantTimeCompare([]byte(r.Header.Get(InstanceHeader)), []byte(v.instance)) != 1 {
		return problem.New("owner_instance_changed", "the request was signed for another run of the daemon").
			WithHint("Sign again with the instance in the response's %s header.", InstanceHeader)
	}
	return v.take(nonce, time.Now())
}

// verify shields from httpsig-go's unchecked type assertions on the signature's
// parameters: created="x" makes it panic.
func (v *verifier) verify(r *http.Request) (result httpsig.VerifyResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed signature: %v", p)
		}
	}()
	result, err = v.signatures.Verify(r)
	if err == nil && !result.Verified {
		err = errors.New("not verified")
	}
	return result, err
}

// take uses a nonce up.
func (v *verifier) take(nonce string, now time.Time) *problem.Error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.swept) > signatureLife || len(v.nonces) >= maxNonces {
		v.swept = now
		for n, until := range v.nonces {
			if now.After(until) {
				delete(v.nonces, n)
			}
		}
	}
	if _, seen := v.nonces[nonce]; seen {
		return problem.New("owner_request_replayed", "this very request was made before")
	}
	if len(v.nonces) >= maxNonces {
		return problem.New("too_many_requests", "more than %d requests in two minutes", maxNonces)
	}
	// A second on top: created has whole seconds.
	v.nonces[nonce] = now.Add(signatureLife + signatureSkew + time.Second)
	return nil
}
