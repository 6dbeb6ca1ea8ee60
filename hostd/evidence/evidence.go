package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sophia/messages"
	"sophia/messages/problem"
)

// States of a source.
const (
	File       = "file"
	Dir        = "dir"
	Missing    = "missing"
	Unreadable = "unreadable" // this user can't read it, so the harness could not either
	Other      = "other"      // neither file nor folder: its kind, device and inode count
)

// Bounds of one snapshot. What exceeds the byte bound counts by its inode,
// size and times, which any change to it moves (the change time can't be set
// back); a folder with more entries is refused.
const (
	maxBytes   = 256 << 20
	maxEntries = 200_000
	maxDepth   = 64
)

// Take hashes every source. A source that is missing has a state too. Symbolic
// links are followed for a source itself, as the harness would, and their
// target counts; inside folders they count by their target's name, and a link
// to a file by its content as well.
//
// Error: evidence_too_large, which names the folder.
func Take(ctx context.Context, sources []string) ([]messages.SourceState, error) {
	t := &taker{ctx: ctx, bytes: maxBytes, entries: maxEntries}
	out := make([]messages.SourceState, 0, len(sources))
	for _, s := range sources {
		state, err := t.source(s)
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
	return out, nil
}

type taker struct {
	ctx     context.Context
	bytes   int64 // left
	entries int   // left
}

func (t *taker) source(path string) (messages.SourceState, error) {
	sum := sha256.New()
	target, notLink := os.Readlink(path)
	if notLink == nil {
		fmt.Fprintf(sum, "link %q\n", target)
	}
	st, err := os.Stat(path)
	state := messages.SourceState{Path: path}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		// A dangling link is a state of its own, by its target.
		state.State = Missing
		if notLink == nil {
			state.SHA256 = hexOf(sum)
		}
		return state, nil
	case err != nil:
		state.State = Unreadable
		return state, nil
	case st.IsDir():
		state.State = Dir
		err = t.folder(sum, path, 0)
	case st.Mode().IsRegular():
		state.State = File
		err = t.file(sum, path)
	default:
		state.State = Other
		meta(sum, st)
	}
	if errors.Is(err, fs.ErrPermission) {
		// It can't be read but it can be told apart.
		state.State = Unreadable
		sum.Reset()
		meta(sum, st)
		err = nil
	}
	if err != nil {
		return messages.SourceState{}, err
	}
	state.SHA256 = hexOf(sum)
	return state, nil
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

func (t *taker) file(sum hash.Hash, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > t.bytes {
		meta(sum, st)
		return nil
	}
	n, err := io.Copy(sum, io.LimitReader(f, t.bytes))
	t.bytes -= n
	return err
}

// folder hashes a tree: for each entry, in the order of names, its kind, its
// name and what is in it.
func (t *taker) folder(sum hash.Hash, path string, depth int) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	var list []fs.DirEntry
	for {
		some, err := d.ReadDir(1024)
		list = append(list, some...)
		t.entries -= len(some)
		if t.entries < 0 || depth > maxDepth {
			d.Close()
			return problem.New("evidence_too_large", "%s has too much in it to be watched during a launch", path).
				WithHint("Move what is not configuration elsewhere; at most %d files and %d levels are watched.", maxEntries, maxDepth)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.Close()
			return err
		}
	}
	d.Close()
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range list {
		if err := t.entry(sum, filepath.Join(path, e.Name()), e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (t *taker) entry(sum hash.Hash, path string, e fs.DirEntry, depth int) error {
	inner := sha256.New()
	kind := "other"
	var err error
	switch {
	case e.IsDir():
		kind = "dir"
		err = t.folder(inner, path, depth+1)
	case e.Type().IsRegular():
		kind = "file"
		err = t.file(inner, path)
	case e.Type()&fs.ModeSymlink != 0:
		kind = "link"
		var target string
		if target, err = os.Readlink(path); err == nil {
			fmt.Fprintf(inner, "%q\n", target)
			// Not into linked folders: they may lead round in circles.
			if st, serr := os.Stat(path); serr == nil && st.Mode().IsRegular() {
				err = t.file(inner, path)
			}
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		kind, err = "unreadable", nil
		inner.Reset()
		if st, serr := os.Lstat(path); serr == nil {
			meta(inner, st)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		kind, err = "vanished", nil // somebody else is at work in there
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %q %x\n", kind, e.Name(), inner.Sum(nil))
	return nil
}

// meta hashes what tells a file apart without reading it.
func meta(sum hash.Hash, info fs.FileInfo) {
	fmt.Fprintf(sum, "meta %v %d\n", info.Mode(), info.Size())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		fmt.Fprintf(sum, "%d %d %d %d %d.%d %d.%d\n", st.Dev, st.Ino, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	}
}
