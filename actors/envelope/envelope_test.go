package envelope

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"
	"go.uber.org/goleak"

	"sophia/actors/envelope/relay"
	"sophia/actors/supervise"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/messages/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a scripted machine: one socket, clients that a test makes.
type host struct {
	t       *testing.T
	clients chan Client
	closed  chan struct{}
	failed  []string
	minted  int
	mint    func(ctx context.Context) error
	dir     *Directory
	tree    *supervise.Tree
	unit    messages.UnitRef
}

func (h *host) Accept() (Client, error) {
	select {
	case c := <-h.clients:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *host) Close() error { close(h.closed); return nil }

func (h *host) Redeem(ctx context.Context, _, _, _ string, _ *secret.Secret) (*secret.Secret, error) {
	h.minted++
	if h.mint != nil {
		if err := h.mint(ctx); err != nil {
			return nil, err
		}
	}
	return secret.New([]byte("sophia_bearer"))
}

func (h *host) Receipt(_ context.Context, _ [32]byte, nonce string) (messages.WorkReceipt, error) {
	return messages.WorkReceipt{Launch: "lp-1", Lease: "ls-1", Connection: "conn-1", Nonce: nonce}, nil
}

// scripted is a client that does what its fields say.
type scripted struct {
	pid, sender int
	identify    error
	silent      bool
	again       error

	envelopes chan messages.Envelope
	handle    *secret.Secret // a copy of what came with the envelope
	deposits  chan *secret.Secret
	kept      chan struct{}
	refused   chan error
	gone      chan struct{}
}

func client(pid int) *scripted {
	return &scripted{pid: pid, sender: pid, envelopes: make(chan messages.Envelope, 1), deposits: make(chan *secret.Secret),
		kept: make(chan struct{}, 1), refused: make(chan error, 1), gone: make(chan struct{})}
}

func (c *scripted) Identify(Want) (int, error) { return c.pid, c.identify }

func (c *scripted) Challenge(d time.Duration) (bool, int, error) {
	if c.silent {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.gone:
		}
		return false, 0, os.ErrDeadlineExceeded
	}
	return true, c.sender, nil
}

func (c *scripted) Again(Want) error { return c.again }

func (c *scripted) Envelope(e messages.Envelope, s *secret.Secret) error {
	c.handle, _ = s.Clone()
	c.envelopes <- e
	return nil
}

func (c *scripted) Deposit() (*secret.Secret, error) {
	select {
	case s := <-c.deposits:
		return s, nil
	case <-c.gone:
		return nil, net.ErrClosed
	}
}

func (c *scripted) Kept() error { c.kept <- struct{}{}; return nil }

func (c *scripted) Refuse(err error) { c.refused <- err; c.Close() }

func (c *scripted) Close() error {
	select {
	case <-c.gone:
	default:
		close(c.gone)
	}
	return nil
}

const digest = "d1g35t"

// relayed runs a test in virtual time with a relay, and checks at the end that
// no secret is left.
func relayed(t *testing.T, test func(h *host, ref *supervise.Ref)) {
	before := secret.Live()
	synctest.Test(t, func(t *testing.T) {
		h := &host{t: t, clients: make(chan Client), closed: make(chan struct{}), unit: messages.UnitRef{ControlGroup: "/x.service"}}
		h.dir = NewDirectory(Config{
			Listen: func(string) (Socket, error) { return h, nil }, MCP: func() string { return "http://127.0.0.1:1/mcp" },
			Broker: "/b", Redeemer: h, Receipts: h,
			Fail:       func(launch, code, _ string) { h.failed = append(h.failed, code) },
			Unconsumed: time.Minute, Settle: 20 * time.Second, Step: 2 * time.Second,
		})
		e, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			t.Fatal(err)
		}
		if h.tree, err = supervise.Start(e, "launch", supervise.Policy{}); err != nil {
			t.Fatal(err)
		}
		handle, err := secret.New([]byte("the one-use handle"))
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Plan: messages.Plan{Launch: "lp-1", Lease: "ls-1", PeerDigest: digest}, Handle: handle, Unit: func() messages.UnitRef { return h.unit }}
		ref, err := h.tree.Add(supervise.Spec{ID: "envelope", Restart: supervise.Temporary, New: func() actor.Receiver { return h.dir.Relay(spec) }})
		if err != nil {
			t.Fatal(err)
		}
		test(h, ref)
		if left, err := h.tree.Stop(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("stopping left %v: %v", left, err)
		}
	})
	if live := secret.Live(); live != before {
		t.Errorf("%d secrets are left", live-before)
	}
}

func (h *host) fails(code string) {
	h.t.Helper()
	synctest.Wait()
	if len(h.failed) != 1 || h.failed[0] != code {
		h.t.Errorf("the launch failed with %v, want %s", h.failed, code)
	}
	if _, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 1, nil); problem.CodeOf(err) != "relay_gone" {
		h.t.Errorf("the relay still answers: %v", err)
	}
}

// settle takes a client through the whole flow and returns the bearer's copy.
func (h *host) settle(c *scripted) {
	h.t.Helper()
	h.clients <- c
	e := <-c.envelopes
	defer c.handle.Zero()
	bearer, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", c.pid, c.handle)
	if err != nil {
		h.t.Fatal(err)
	}
	sum, _ := bearer.SHA256()
	if r, err := h.dir.Receipt(context.Background(), "lp-1", c.pid, sum, e.Receipt); err != nil || r.Nonce != e.Receipt || r.Lease != "ls-1" {
		h.t.Fatalf("%+v %v", r, err)
	}
	c.deposits <- bearer
	<-c.kept
}

func TestRelay_UnconsumedDestroysItself(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		synctest.Wait()
		if h.dir.Phase(context.Background(), "lp-1") != relay.Waiting {
			t.Error("it does not wait")
		}
		time.Sleep(time.Minute) // virtual
		h.fails("envelope_unconsumed")
	})
}

func TestRelay_WholeFlowThenHoursOfReuse(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		first := client(11)
		h.settle(first)
		first.Close()
		time.Sleep(5 * time.Hour) // virtual: no deadline runs once the deposit is there
		second := client(12)
		h.clients <- second
		e := <-second.envelopes
		if !e.Reused || !second.handle.Equal([]byte("sophia_bearer")) {
			t.Errorf("the restarted wrapper got %+v", e)
		}
		sum, _ := second.handle.SHA256()
		if r, err := h.dir.Receipt(context.Background(), "lp-1", 12, sum, e.Receipt); err != nil || r.Nonce != e.Receipt {
			t.Errorf("its proof: %+v %v", r, err)
		}
		second.handle.Zero()
		if h.minted != 1 || len(h.failed) > 0 {
			t.Errorf("minted %d, failed %v", h.minted, h.failed)
		}
	})
}

func TestRelay_SecondRedemptionEndsTheLease(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		c := client(11)
		h.clients <- c
		<-c.envelopes
		stolen, _ := c.handle.Clone()
		defer stolen.Zero()
		defer c.handle.Zero()
		bearer, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, c.handle)
		if err != nil {
			t.Fatal(err)
		}
		bearer.Zero()
		if _, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 66, stolen); problem.CodeOf(err) != "handle_already_redeemed" {
			t.Errorf("the second: %v", err)
		}
		h.fails("handle_already_redeemed")
		if err := <-c.refused; problem.CodeOf(err) != "handle_already_redeemed" {
			t.Errorf("the first wrapper is told %v", err)
		}
	})
}

func TestRelay_RedemptionIsBoundToWhomItWasServed(t *testing.T) {
	for name, redeem := range map[string]func(h *host, s *secret.Secret) (*secret.Secret, error){
		"another process": func(h *host, s *secret.Secret) (*secret.Secret, error) {
			return h.dir.Redeem(context.Background(), "lp-1", "ls-1", 66, s)
		},
		"another lease": func(h *host, s *secret.Secret) (*secret.Secret, error) {
			return h.dir.Redeem(context.Background(), "lp-1", "ls-2", 11, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			relayed(t, func(h *host, ref *supervise.Ref) {
				c := client(11)
				h.clients <- c
				<-c.envelopes
				defer c.handle.Zero()
				if _, err := redeem(h, c.handle); problem.CodeOf(err) != "redemption_not_bound" {
					t.Error(err)
				}
				h.fails("redemption_not_bound")
				if h.minted != 0 {
					t.Error("and a bearer was minted")
				}
			})
		})
	}
}

func TestRelay_RefusalsLeaveTheEnvelopeForTheRightOne(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		wrong := client(1)
		wrong.identify = problem.New("peer_wrong_executable", "another program")
		thief := client(2)
		thief.sender = 66
		changed := client(3)
		changed.again = problem.New("peer_traced", "traced")
		silent := client(4)
		silent.silent = true
		for c, code := range map[*scripted]string{wrong: "peer_wrong_executable", thief: "challenge_failed", changed: "peer_traced", silent: "challenge_failed"} {
			h.clients <- c
			select {
			case err := <-c.refused:
				if problem.CodeOf(err) != code {
					t.Errorf("%v, want %s", err, code)
				}
			case <-c.gone: // a silent one may just be cut off
			}
			select {
			case <-c.envelopes:
				t.Errorf("%s and served all the same", code)
			default:
			}
		}
		guess, err := secret.New([]byte("a guess"))
		if err != nil {
			t.Fatal(err)
		}
		defer guess.Zero()
		if _, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 2, guess); problem.CodeOf(err) != "handle_unknown" {
			t.Error(err)
		}
		h.settle(client(11))
		if len(h.failed) > 0 {
			t.Errorf("the launch failed: %v", h.failed)
		}
	})
}

func TestRelay_SecondWrapperWaitsForTheFirstsDeposit(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		first, second := client(11), client(12)
		h.clients <- first
		e := <-first.envelopes
		h.clients <- second
		synctest.Wait()
		bearer, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, first.handle)
		if err != nil {
			t.Fatal(err)
		}
		first.handle.Zero()
		sum, _ := bearer.SHA256()
		if _, err := h.dir.Receipt(context.Background(), "lp-1", 12, sum, e.Receipt); problem.CodeOf(err) != "proof_refused" {
			t.Errorf("another process's proof with the first's nonce: %v", err)
		}
		if _, err := h.dir.Receipt(context.Background(), "lp-1", 11, sum, e.Receipt); err != nil {
			t.Fatal(err)
		}
		first.deposits <- bearer
		if e := <-second.envelopes; !e.Reused {
			t.Errorf("%+v", e)
		}
		second.handle.Zero()
	})
}

func TestRelay_DepositBeforeTheProofIsRefused(t *testing.T) {
	relayed(t, func(h *host, ref *supervise.Ref) {
		c := client(11)
		h.clients <- c
		<-c.envelopes
		bearer, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, c.handle)
		if err != nil {
			t.Fatal(err)
		}
		c.handle.Zero()
		c.deposits <- bearer
		if err := <-c.refused; problem.CodeOf(err) != "deposit_refused" {
			t.Error(err)
		}
		h.fails("deposit_refused")
	})
}

func TestRelay_UnsettledAndLostFailClosed(t *testing.T) {
	t.Run("time", func(t *testing.T) {
		relayed(t, func(h *host, ref *supervise.Ref) {
			c := client(11)
			h.clients <- c
			<-c.envelopes
			c.handle.Zero()
			time.Sleep(20 * time.Second) // virtual
			h.fails("envelope_unsettled")
		})
	})
	t.Run("wrapper killed", func(t *testing.T) {
		relayed(t, func(h *host, ref *supervise.Ref) {
			c := client(11)
			h.clients <- c
			<-c.envelopes
			c.handle.Zero()
			c.Close()
			h.fails("wrapper_lost")
		})
	})
	t.Run("mint fails", func(t *testing.T) {
		relayed(t, func(h *host, ref *supervise.Ref) {
			h.mint = func(context.Context) error { return problem.New("store_full", "the disk is full") }
			c := client(11)
			h.clients <- c
			<-c.envelopes
			defer c.handle.Zero()
			if _, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, c.handle); problem.CodeOf(err) != "store_full" {
				t.Error(err)
			}
			h.fails("bearer_not_made")
		})
	})
	t.Run("lease ends while minting", func(t *testing.T) {
		relayed(t, func(h *host, ref *supervise.Ref) {
			minting := make(chan struct{})
			h.mint = func(ctx context.Context) error { close(minting); <-ctx.Done(); return nil }
			c := client(11)
			h.clients <- c
			<-c.envelopes
			defer c.handle.Zero()
			go func() {
				<-minting
				_ = h.tree.Remove(context.Background(), "envelope")
			}()
			if _, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, c.handle); problem.CodeOf(err) != "lease_over" {
				t.Error(err)
			}
		})
	})
}

// Killed at its n-th message, wherever that is in the flow: the launch's relay
// is gone, nothing is served twice, no secret stays, and it is not restarted.
func TestRelay_CrashAtEachStepFailsClosed(t *testing.T) {
	for n := uint64(3); n < 14; n++ {
		before := secret.Live()
		synctest.Test(t, func(t *testing.T) {
			h := &host{t: t, clients: make(chan Client), closed: make(chan struct{})}
			h.dir = NewDirectory(Config{Listen: func(string) (Socket, error) { return h, nil }, MCP: func() string { return "" }, Redeemer: h, Receipts: h})
			e, err := actor.NewEngine(actor.NewEngineConfig())
			if err != nil {
				t.Fatal(err)
			}
			lives, served := 0, 0
			h.tree, err = supervise.Start(e, "launch", supervise.Policy{Max: 5, Intercept: func(_ string, _ uint64, k uint64, _ any) supervise.Fault {
				if k == n {
					return supervise.Fault{Do: supervise.Panic}
				}
				return supervise.Fault{}
			}})
			if err != nil {
				t.Fatal(err)
			}
			handle, err := secret.New([]byte("the one-use handle"))
			if err != nil {
				t.Fatal(err)
			}
			spec := Spec{Plan: messages.Plan{Launch: "lp-1", Lease: "ls-1", PeerDigest: digest}, Handle: handle}
			ref, err := h.tree.Add(supervise.Spec{ID: "envelope", Restart: supervise.Temporary, New: func() actor.Receiver { lives++; return h.dir.Relay(spec) }})
			if err != nil {
				t.Fatal(err)
			}
			crashed := make(chan struct{})
			go func() {
				_, err := ref.Ask(context.Background(), struct{}{}) // never answered: fails when the relay is down
				var down *supervise.DownError
				if !errors.As(err, &down) && !errors.Is(err, supervise.ErrDown) {
					t.Errorf("the relay answered %v", err)
				}
				close(crashed)
			}()
			go func() { // a wrapper that goes as far as it can
				c := client(11)
				select {
				case h.clients <- c:
				case <-crashed:
					return
				}
				var e messages.Envelope
				select {
				case e = <-c.envelopes:
					served++
				case <-crashed:
					return
				}
				bearer, err := h.dir.Redeem(context.Background(), "lp-1", "ls-1", 11, c.handle)
				c.handle.Zero()
				if err != nil {
					return
				}
				sum, _ := bearer.SHA256()
				_, _ = h.dir.Receipt(context.Background(), "lp-1", 11, sum, e.Receipt)
				select {
				case c.deposits <- bearer:
				case <-c.gone:
					bearer.Zero()
				case <-crashed:
					bearer.Zero()
				}
			}()
			synctest.Wait()
			if _, err := h.tree.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			<-crashed
			synctest.Wait()
			if lives != 1 || served > 1 || h.minted > 1 {
				t.Errorf("message %d: %d lives, served %d, minted %d", n, lives, served, h.minted)
			}
		})
		if live := secret.Live(); live != before {
			t.Errorf("message %d: %d secrets are left", n, live-before)
		}
	}
}
