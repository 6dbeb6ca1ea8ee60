package messages

import "time"

// AdoptedHarness is a harness as it was copied into Sophia's own folder.
type AdoptedHarness struct {
	Harness   string       `json:"harness"`
	Version   string       `json:"version"` // as witnessed
	Identity  FileIdentity `json:"identity"`
	Tree      string       `json:"tree"` // digest of the whole tree, hex
	Files     int          `json:"files"`
	Source    string       `json:"source"`    // where it was copied from
	Reflinked bool         `json:"reflinked"` // it shares the disk's blocks with the source
	Adopted   time.Time    `json:"adopted"`
}
