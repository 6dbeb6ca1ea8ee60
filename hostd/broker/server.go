package broker

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"sophia/hostd/channel"
	"sophia/hostd/peer"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Redeemer changes a handle for the bearer of a lease, once, and only for the
// process that the handle was served to: pid, by the kernel's word. It does not
// keep the handle; the caller zeroes it and the bearer.
type Redeemer interface {
	Redeem(ctx context.Context, launch, lease string, pid int, handle *secret.Secret) (*secret.Secret, error)
}

// Receipts attests a bearer of a launch, given by its SHA-256, shown by pid.
type Receipts interface {
	Receipt(ctx context.Context, launch string, pid int, bearer [32]byte, nonce string) (messages.WorkReceipt, error)
}

// Config is what the broker serves.
type Config struct {
	Path     string        // of the socket, in a private folder
	Wrapper  func() string // SHA-256 of the packaged wrapper, hex
	Redeemer Redeemer
	Receipts Receipts
	Log      *slog.Logger // nil discards
}

// Redemption is the body of a Redeem frame.
type Redemption struct {
	Launch string `json:"launch"`
	Lease  string `json:"lease"`
}

// Proof is the body of a Prove frame.
type Proof struct {
	Launch string `json:"launch"`
	Nonce  string `json:"nonce"` // the envelope's receipt nonce
}

const (
	stepBound = 5 * time.Second  // for a packet
	workBound = 30 * time.Second // for what a request does
	maxConns  = 32
)

// Server is a running broker.
type Server struct {
	c      Config
	l      *channel.Listener
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[*channel.Conn]struct{}
}

// Start listens and serves until Close.
func Start(c Config) (*Server, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	l, err := channel.Listen(c.Path)
	if err != nil {
		return nil, err
	}
	s := &Server{c: c, l: l, conns: map[*channel.Conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// Close ends all connections and waits until none is served any more.
func (s *Server) Close() error {
	s.cancel()
	err := s.l.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		full := len(s.conns) >= maxConns || s.ctx.Err() != nil
		if !full {
			s.conns[c] = struct{}{}
		}
		s.mu.Unlock()
		if full {
			_ = c.Close()
			continue
		}
		s.wg.Go(func() {
			defer func() {
				_ = c.Close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
			s.serve(c)
		})
	}
}

func (s *Server) serve(c *channel.Conn) {
	want := peer.Want{UID: uint32(os.Geteuid()), SHA256: s.c.Wrapper(), Hidden: true}
	p, err := channel.Attest(c, want, stepBound)
	if err != nil {
		s.c.Log.Warn("a process was refused at the broker", "why", err)
		c.Refuse(err, stepBound)
		return
	}
	defer p.Close()
	for {
		f, from, err := c.Receive(stepBound)
		if err != nil {
			return
		}
		if from.PID != p.PID {
			f.Zero()
			c.Refuse(problem.New("challenge_failed", "process %d sends in place of process %d", from.PID, p.PID), stepBound)
			return
		}
		answer, err := s.request(f, p.PID)
		f.Zero()
		if err == nil {
			err = c.Send(answer, stepBound)
			answer.Zero()
		}
		if err != nil {
			s.c.Log.Warn("a request at the broker was refused", "why", err)
			c.Refuse(err, stepBound)
			return
		}
	}
}

func (s *Server) request(f channel.Frame, pid int) (channel.Frame, error) {
	ctx, cancel := context.WithTimeout(s.ctx, workBound)
	defer cancel()
	if f.Secret == nil {
		return channel.Frame{}, problem.New("frame_malformed", "a request without a secret")
	}
	switch f.Kind {
	case channel.Redeem:
		var r Redemption
		if err := f.Into(&r); err != nil {
			return channel.Frame{}, err
		}
		bearer, err := s.c.Redeemer.Redeem(ctx, r.Launch, r.Lease, pid, f.Secret)
		return channel.Frame{Kind: channel.Bearer, Secret: bearer}, err
	case channel.Prove:
		var p Proof
		if err := f.Into(&p); err != nil {
			return channel.Frame{}, err
		}
		sum, err := f.Secret.SHA256()
		if err != nil {
			return channel.Frame{}, err
		}
		receipt, err := s.c.Receipts.Receipt(ctx, p.Launch, pid, sum, p.Nonce)
		if err != nil {
			return channel.Frame{}, err
		}
		return channel.Of(channel.Receipt, receipt, nil)
	}
	return channel.Frame{}, problem.New("frame_malformed", "a frame of kind %d is no request", f.Kind)
}
