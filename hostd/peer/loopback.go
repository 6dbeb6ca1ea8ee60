package peer

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"sophia/messages/problem"
)

// acceptPause is between two looks at a connection that nobody has accepted yet.
const acceptPause = time.Millisecond

const established = "01" // TCP_ESTABLISHED

// Acceptor is the uid of the process that accepted the other end of a loopback
// connection: any user can listen on a port, also on one whose daemon is just
// away. It waits for the acceptance, because before it the kernel knows no
// owner. It fails with "peer_gone" when the other end is closed, and when ctx
// ends.
func Acceptor(ctx context.Context, c *net.TCPConn) (uid uint32, err error) {
	local, remote := address(c.LocalAddr()), address(c.RemoteAddr())
	for {
		var accepted, found bool
		for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			text, err := os.ReadFile(table)
			if errors.Is(err, os.ErrNotExist) {
				continue // no IPv6
			}
			if err != nil {
				return 0, problem.Wrap(err, "peer_unreadable", "who serves %s can't be found out", remote)
			}
			if uid, accepted, found = acceptor(string(text), remote, local); accepted {
				return uid, nil
			}
			if found {
				break
			}
		}
		if !found {
			return 0, gone(net.ErrClosed)
		}
		select {
		case <-time.After(acceptPause):
		case <-ctx.Done():
			return 0, gone(ctx.Err())
		}
	}
}

func address(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// acceptor looks for the connection from local to remote, as its owner sees it,
// in proc_net_tcp(5). A connection that was not accepted has inode 0, as one
// has that its owner has closed.
func acceptor(table string, local, remote netip.AddrPort) (uid uint32, accepted, found bool) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // sl local remote st queues timer retransmits uid timeout inode
		if len(f) < 10 || tableAddress(f[1]) != local || tableAddress(f[2]) != remote {
			continue
		}
		if f[9] == "0" && f[3] != established {
			continue
		}
		n, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(n), err == nil && f[9] != "0", true
	}
	return 0, false, false
}

// tableAddress reads an address of proc_net_tcp(5): words in the machine's own
// byte order, a colon, and the port as a number.
func tableAddress(s string) netip.AddrPort {
	words, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(words)
	n, perr := strconv.ParseUint(port, 16, 16)
	if err != nil || perr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n))
}
