package custody

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sophia/hostd/paths"
	"sophia/messages/problem"
)

// maxWritten bounds the record of one file. A login is renewed about once an
// hour, and a lease lasts at most a week.
const maxWritten = 512

// record is where the digests are kept of what was written to one real file,
// one a line. A credential's digest is no secret.
func (k Keeper) record(real string) string {
	return filepath.Join(k.Kept, "written-"+sum([]byte(real))[:16])
}

// Written implements the custodian's Keeper. Launches that run meanwhile need
// it, also after a restart of the daemon: that change of the owner's file was
// Sophia's.
func (k Keeper) Written(real string) ([]string, error) {
	b, err := os.ReadFile(k.record(real))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, problem.Wrap(err, "credential_unreadable", "the record of renewed credentials can't be read")
	}
	return strings.Fields(string(b)), nil
}

// intend adds to the record, before the real file is touched. One custodian a
// real file: nobody else writes this record.
func (k Keeper) intend(real, digest string) error {
	all, err := k.Written(real)
	if err != nil || slices.Contains(all, digest) {
		return err
	}
	all = append(all, digest)
	if err := paths.MakePrivate(k.Kept); err != nil {
		return err
	}
	name := k.record(real)
	temp := name + "." + rand.Text()[:10]
	err = writeNew(temp, []byte(strings.Join(all[max(0, len(all)-maxWritten):], "\n")+"\n"))
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err == nil {
		return syncDir(name)
	}
	os.Remove(temp)
	return problem.Wrap(err, "credential_not_written", "the renewed credential could not be recorded, so it is not written back yet").
		WithHint("See that there is room on the disk of %s.", k.Kept)
}
