package ownerapi

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"sophia/hostd/paths"
	"sophia/hostd/peer"
	"sophia/messages/problem"
)

// Listen makes the owner's socket: mode 0600 in a private folder, accepting
// only this user's processes. A socket left by a dead daemon is replaced. While
// the listener is open nobody else gets it: the code is daemon_running. So it
// serves as the lock against a second daemon too.
func Listen(path string) (l net.Listener, err error) {
	if err := paths.MakePrivate(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// The socket itself can't be the lock: between finding it dead and replacing
	// it another daemon may have come.
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, problem.Wrap(err, "socket_not_made", "can't lock %s", path)
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, problem.Wrap(err, "daemon_running", "a daemon listens on %s already", path).WithHint("Stop it with: sophia down")
	}
	return listen(path, lock)
}

func listen(path string, lock *os.File) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, problem.Wrap(err, "socket_not_made", "the old socket %s can't be removed", path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, problem.Wrap(err, "socket_not_made", "can't listen on %s", path)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, problem.Wrap(err, "socket_not_made", "can't make %s private", path)
	}
	return ownerListener{l, lock}, nil
}

// ownerListener drops connections of other users. The folder keeps them out
// already; this holds even if its mode is changed under us.
type ownerListener struct {
	*net.UnixListener
	lock *os.File
}

// Close removes the socket and then gives the lock back.
func (l ownerListener) Close() error {
	err := l.UnixListener.Close()
	l.lock.Close() // again is harmless; http.Server may
	return err
}

func (l ownerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if from, err := peer.Credentials(conn); err == nil && int(from.Uid) == os.Geteuid() {
			return conn, nil
		}
		conn.Close()
	}
}

type connKey struct{}

// withConn lets a handler find the unix connection that it serves.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if unixConn, ok := conn.(*net.UnixConn); ok {
		return context.WithValue(ctx, connKey{}, unixConn)
	}
	return ctx
}

func unixConn(ctx context.Context) (*net.UnixConn, bool) {
	conn, ok := ctx.Value(connKey{}).(*net.UnixConn)
	return conn, ok
}
