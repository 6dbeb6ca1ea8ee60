package custody

import (
	"sophia/hostd/harness/contracts"
	"sophia/messages"
)

// decide is what to do with a credential when its launch has ended. copied,
// now and real are SHA-256 sums in hex, "" for a missing file: of what was
// copied, of what is in the overlay, of what the owner has. form is of what is
// in the overlay.
//
//	overlay as copied                     → unchanged
//	overlay gone, blank or malformed      → the real file stays
//	overlay renewed, real as copied       → write back
//	overlay renewed, real has the same    → unchanged (it was written back before)
//	overlay renewed, real changed as well → keep both
func decide(copied, now, real string, form contracts.Form) string {
	switch {
	case now == copied:
		return messages.CredentialUnchanged
	case now == "" || form.Blank:
		return messages.CredentialBlank
	case !form.Usable:
		return messages.CredentialMalformed
	case now == real:
		return messages.CredentialUnchanged
	case real == copied:
		return messages.CredentialWrittenBack
	}
	return messages.CredentialConflict
}
