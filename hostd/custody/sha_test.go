package custody_test

import (
	"crypto/sha256"
	"encoding/hex"
)

func sha(s string) string {
	if s == "" {
		return ""
	}
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:])
}
