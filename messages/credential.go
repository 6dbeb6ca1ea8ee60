package messages

// CredentialCopy is the one real file that was copied into a launch's overlay.
// It is kept beside the overlay, so that a restarted daemon knows what the
// real file was. It holds no secret.
type CredentialCopy struct {
	Launch  string `json:"launch"`
	Harness string `json:"harness"`
	Real    string `json:"real"`   // absolute path of the owner's file, symbolic links resolved
	Copy    string `json:"copy"`   // absolute path in the overlay
	SHA256  string `json:"sha256"` // hex, of what was copied; "" when there was nothing to copy
}

// Outcomes of a credential when its launch has ended.
const (
	CredentialUnchanged   = "unchanged"            // what was copied is what is there
	CredentialWrittenBack = "rotated_written_back" // the harness renewed it and the real file has it now
	CredentialConflict    = "conflict"             // both changed; both are kept
	CredentialMalformed   = "malformed"            // what is in the overlay can't be used; the real file stays
	CredentialBlank       = "blank"                // logged out in the overlay; the real file stays
	CredentialNone        = "none"                 // the harness has no credential file
	CredentialUndecided   = "undecided"            // the harness is not known any more; the overlay keeps it
)

// CredentialOutcome is what became of a launch's credential.
type CredentialOutcome struct {
	Outcome string `json:"outcome"`
	SHA256  string `json:"sha256,omitempty"` // of the real file as this launch last knew it
	Kept    string `json:"kept,omitempty"`   // where the overlay's side of a conflict is
}
