package ownerapi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"sophia/hostd/paths"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// connectionID keeps what becomes a file name from being anything else.
var connectionID = regexp.MustCompile(`^conn-[0-9a-f]{4,32}$`)

// BearerFile is where the bearer of a minted connection lies.
func BearerFile(folder, connection string) string {
	return filepath.Join(folder, connection+".bearer")
}

// writeBearer puts a bearer into a new file of mode 0600, and nothing else into
// it, so that $(cat FILE) is the bearer.
func writeBearer(folder, connection string, bearer *secret.Secret) (string, error) {
	if !connectionID.MatchString(connection) {
		return "", problem.New("internal", "%q is no connection id", connection)
	}
	if err := paths.MakePrivate(folder); err != nil {
		return "", err
	}
	path := BearerFile(folder, connection)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", problem.Wrap(err, "bearer_not_written", "the bearer can't be written to %s", path)
	}
	err = bearer.Use(func(b []byte) error { _, err := f.Write(b); return err })
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
		return "", problem.Wrap(err, "bearer_not_written", "the bearer can't be written to %s", path)
	}
	return path, nil
}

func removeBearer(folder, connection string) error {
	if !connectionID.MatchString(connection) {
		return nil // a connection without a file, as a managed launch's
	}
	if err := os.Remove(BearerFile(folder, connection)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return problem.Wrap(err, "bearer_not_removed", "the connection is revoked, but its bearer file stays")
	}
	return nil
}
