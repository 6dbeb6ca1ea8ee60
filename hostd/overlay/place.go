package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sophia/hostd/overlay/beneath"
	"sophia/hostd/paths"
	"sophia/messages/problem"
)

// launchName is what a launch's folder is called. Removal takes nothing else.
var launchName = regexp.MustCompile(`^lp-[0-9a-f]{6,10}$`)

// checkPlace refuses an overlay below a temp folder: Codex refuses to run from
// there, and others may clean it.
func checkPlace(r Request) error {
	dir := filepath.Clean(r.LaunchDir)
	if !filepath.IsAbs(dir) || !launchName.MatchString(filepath.Base(dir)) {
		return problem.New("overlay_not_private", "%q is not the folder of a launch", r.LaunchDir)
	}
	temps := []string{"/tmp", "/var/tmp", "/dev/shm", os.TempDir()}
	if slices.ContainsFunc(temps, func(t string) bool { return strings.HasPrefix(dir, filepath.Clean(t)+"/") }) {
		return problem.New("overlay_under_temp", "%s lies below a temporary folder", dir).
			WithHint("Set XDG_RUNTIME_DIR or SOPHIA_HOME to a folder outside it.")
	}
	return nil
}

func openLaunch(dir string) (*beneath.Dir, error) {
	if err := paths.MakePrivate(dir); err != nil {
		return nil, err
	}
	d, err := beneath.Open(dir)
	if err != nil {
		return nil, failed(err)
	}
	return d, nil
}

func failed(err error) error {
	if errors.Is(err, beneath.ErrForeign) || errors.Is(err, beneath.ErrOpen) {
		return problem.Wrap(err, "overlay_not_private", "the launch's folder is not private").
			WithHint("Somebody changed its owner or mode. Look who, then start again.")
	}
	return problem.Wrap(err, "overlay_failed", "the launch's configuration home can't be worked on").
		WithHint("See that the runtime folder is on a disk with room, and yours.")
}

// RemoveCredential deletes the copy of the credential, by its path in the
// overlay, and leaves the rest. It may be called again, and when there is none.
// It must only be called when no process of the launch is left, and after the
// credential's way back.
func RemoveCredential(launchDir, credential string) error {
	return remove(launchDir, path.Join(Name, credential))
}

// Remove deletes the launch's whole folder, under the same conditions.
func Remove(launchDir string) error { return remove(launchDir, "") }

// remove deletes what is at rel in a launch's folder. The folder above is
// Sophia's own; what the agent did to its folders keeps nothing from being removed.
func remove(launchDir, rel string) error {
	dir := filepath.Clean(launchDir)
	if !launchName.MatchString(filepath.Base(dir)) {
		return problem.New("overlay_not_private", "%q is not the folder of a launch", launchDir)
	}
	d, err := beneath.Open(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(err)
	}
	defer d.Close()
	if err := d.Remove(path.Join(filepath.Base(dir), rel)); err != nil {
		return problem.Wrap(err, "overlay_not_removed", "the launch's configuration home could not be deleted").
			WithHint("It is at %s.", dir)
	}
	return nil
}
