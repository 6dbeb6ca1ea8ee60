package wrapper

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"sophia/hostd/broker"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Credential is a proven bearer and where it is good.
type Credential struct {
	URL    string
	Bearer *secret.Secret
	Lease  string // "" for a minted connection
	// Over returns when the lease has ended, with the reason; io.EOF when the
	// relay is gone without one. Nil for a minted connection.
	Over  func() error
	close func()
}

// Close zeroes the bearer and lets go of the relay.
func (c *Credential) Close() {
	c.Bearer.Zero()
	if c.close != nil {
		c.close()
	}
}

// Harden keeps this process's memory from its neighbours: no core files, and no
// reading of it by other processes of the user. After it, /proc/<pid>/exe
// can't be read by an ordinary user's daemon, so it comes after the relay's look.
func Harden() error {
	if err := secret.NoCores(); err != nil {
		return problem.Wrap(err, "not_hardened", "core files can't be switched off")
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return problem.Wrap(err, "not_hardened", "the process can't be made undumpable")
	}
	return nil
}

// Managed fetches, redeems, proves and deposits the credential of a launch.
func Managed(ctx context.Context, launch, socket string) (*Credential, error) {
	h, err := Fetch(ctx, socket, launch, Harden)
	if err != nil {
		return nil, err
	}
	bearer, err := settle(ctx, h)
	if err != nil {
		h.Close()
		return nil, err
	}
	return &Credential{URL: h.MCP, Bearer: bearer, Lease: h.Lease, Over: h.Wait, close: func() { h.Close() }}, nil
}

func settle(ctx context.Context, h *Holding) (bearer *secret.Secret, err error) {
	defer h.Secret.Zero()
	b, err := broker.Dial(ctx, h.Broker)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if h.Reused {
		bearer, err = h.Secret.Clone()
	} else {
		bearer, err = b.Redeem(broker.Redemption{Launch: h.Launch, Lease: h.Lease}, h.Secret)
	}
	if err != nil {
		return nil, err
	}
	held := bearer // a return of nil sets bearer before this runs
	defer func() {
		if err != nil {
			held.Zero()
		}
	}()
	receipt, err := b.Prove(broker.Proof{Launch: h.Launch, Nonce: h.Receipt}, bearer)
	if err != nil {
		return nil, err
	}
	if receipt.Launch != h.Launch || receipt.Lease != h.Lease || receipt.Nonce != h.Receipt || receipt.Connection == "" {
		return nil, problem.New("receipt_mismatch", "the daemon's receipt is for lease %s of launch %s, not for lease %s of launch %s", receipt.Lease, receipt.Launch, h.Lease, h.Launch)
	}
	if !h.Reused {
		if err := h.Deposit(bearer); err != nil {
			return nil, err
		}
	}
	return bearer, nil
}

// Minted reads a bearer from a file that only its owner can read. Whether it is
// still good shows at Proxy.Prove.
func Minted(ctx context.Context, url, file string) (*Credential, error) {
	bearer, err := readBearer(file)
	if err != nil {
		return nil, err
	}
	c := &Credential{URL: url, Bearer: bearer}
	if err := Harden(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func readBearer(file string) (*secret.Secret, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, problem.Wrap(err, "bearer_file_unreadable", "the bearer file %s can't be read", file)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, problem.Wrap(err, "bearer_file_unreadable", "the bearer file %s can't be read", file)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return nil, problem.New("bearer_file_not_private", "the bearer file %s can be read by others", file).WithHint("Run: chmod 600 %s", file)
	}
	b := make([]byte, 1024)
	defer clear(b)
	n, err := io.ReadFull(f, b)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, problem.New("bearer_file_malformed", "the bearer file %s is empty or too long", file)
	}
	for n > 0 && (b[n-1] == '\n' || b[n-1] == '\r') {
		n--
	}
	if n == 0 {
		return nil, problem.New("bearer_file_malformed", "the bearer file %s is empty or too long", file)
	}
	for _, x := range b[:n] {
		if x <= ' ' || x > '~' {
			return nil, problem.New("bearer_file_malformed", "the bearer file %s has more than a bearer in it", file)
		}
	}
	return secret.New(b[:n])
}
