package harness

import (
	"context"

	"sophia/hostd/harness/contracts"
	"sophia/messages"
)

// Verifier verifies harnesses for launches.
type Verifier struct {
	Contracts contracts.Set
	Scratch   string // a folder for witnesses, outside temp folders
}

// Verify holds the program that a plan recorded, compares it, and witnesses
// its version. The caller closes the result after the program was started, or
// when it will not be.
func (v Verifier) Verify(ctx context.Context, harness string, want messages.FileIdentity) (*Held, error) {
	c, err := v.Contracts.Get(harness)
	if err != nil {
		return nil, err
	}
	h, err := Hold(ctx, want.Path, Rules{Linking: c.Linking})
	if err != nil {
		return nil, err
	}
	if err := v.Judge(ctx, c, h, want); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Judge compares a program that is held already with what a plan recorded, and
// witnesses its version.
func (v Verifier) Judge(ctx context.Context, c contracts.Contract, h *Held, want messages.FileIdentity) error {
	if err := h.Compare(want); err != nil {
		return err
	}
	_, err := h.Witness(ctx, c, v.Scratch)
	return err
}

// Identify verifies a program for the first time, when a plan is prepared:
// its identity and the version that it was witnessed at.
func (v Verifier) Identify(ctx context.Context, harness, path string) (messages.FileIdentity, string, error) {
	c, err := v.Contracts.Get(harness)
	if err != nil {
		return messages.FileIdentity{}, "", err
	}
	h, err := Hold(ctx, path, Rules{Linking: c.Linking})
	if err != nil {
		return messages.FileIdentity{}, "", err
	}
	defer h.Close()
	version, err := h.Witness(ctx, c, v.Scratch)
	return h.Identity(), version, err
}

// IdentifyOwn is the identity of one of Sophia's own programs, or of whatever
// else is pinned by its digest alone.
func IdentifyOwn(ctx context.Context, path string) (messages.FileIdentity, error) {
	h, err := Hold(ctx, path, Own)
	if err != nil {
		return messages.FileIdentity{}, err
	}
	defer h.Close()
	return h.Identity(), nil
}
