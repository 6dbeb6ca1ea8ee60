package relay

// Conn numbers a connection to the relay. Never reused within a relay's life.
type Conn int

// Event is what happened outside.
type Event interface{ event() }

// Events. Bool fields are comparisons that the shell made: the machine sees no
// secret.
type (
	// Connected: the peer was looked at. Refusal is the code of what was wrong, or "".
	Connected struct {
		Conn    Conn
		PID     int
		Refusal string
	}
	// Answered: a frame came where the answer to the challenge was due.
	Answered struct {
		Conn    Conn
		Right   bool   // it is the nonce
		Sender  int    // pid, by the kernel
		Refusal string // what was wrong at the second look, or ""
	}
	// Disconnected: the connection ended, or sending on it failed.
	Disconnected struct{ Conn Conn }
	// Redeem: somebody wants the bearer. Req numbers the request.
	Redeem struct {
		Req    int
		Handle bool // it is the handle
		Bound  bool // to the plan's lease, and by the very process that was served
	}
	// Minted: the bearer that Mint asked for exists, or could not be made.
	Minted struct {
		Req int
		OK  bool
	}
	// Prove: somebody shows a bearer and wants a receipt.
	Prove struct {
		Req    int
		Conn   Conn // whose receipt nonce it is; 0 is nobody's
		Bearer bool // it is the minted one
	}
	// Deposited: the bearer comes back.
	Deposit struct {
		Conn   Conn
		Bearer bool // it is the minted one
	}
	// TimedOut: a timer that Arm started ran out.
	TimedOut struct {
		Timer Timer
		Conn  Conn
	}
	// Ended: the lease is over.
	Ended struct{}
)

func (Connected) event()    {}
func (Answered) event()     {}
func (Disconnected) event() {}
func (Redeem) event()       {}
func (Minted) event()       {}
func (Prove) event()        {}
func (Deposit) event()      {}
func (TimedOut) event()     {}
func (Ended) event()        {}

// Timer names a deadline.
type Timer string

// Timers.
const (
	Unconsumed Timer = "unconsumed" // from the start until the envelope is served
	Settle     Timer = "settle"     // from serving until the deposit
	Step       Timer = "step"       // of one connection: until its answer
)

// Action is what the shell must do, in order.
type Action interface{ action() }

// Actions.
type (
	Challenge struct{ Conn Conn }
	// Serve sends the envelope with the handle, and a fresh receipt nonce.
	Serve struct{ Conn Conn }
	// ZeroHandle drops the handle; it always follows Serve.
	ZeroHandle struct{}
	// Reuse sends the envelope with the deposited bearer and a fresh receipt nonce.
	Reuse struct{ Conn Conn }
	// Refuse tells the client why and ends the connection.
	Refuse struct {
		Conn Conn
		Code string
	}
	// Mint makes the bearer, beside; the answer is Minted.
	Mint struct{ Req int }
	// Grant answers a Redeem with the bearer. The shell keeps its digest only.
	Grant struct{ Req int }
	// Attest answers a Prove with a work receipt.
	Attest struct{ Req int }
	// Deny answers a Redeem or a Prove with an error.
	Deny struct {
		Req  int
		Code string
	}
	// Keep stores the deposited bearer and says so to the holder.
	Keep struct{ Conn Conn }
	// Drop zeroes what Deposit brought, or what Minted made, unused.
	Drop struct{}
	Arm  struct {
		Timer Timer
		Conn  Conn
	}
	Disarm struct {
		Timer Timer
		Conn  Conn
	}
	// Notify tells the lease how far it is.
	Notify struct{ Phase Phase }
	// Close ends all: every secret zeroed, the socket removed, the bearer (if
	// there is one) revoked by the lease, which is told why.
	Close struct{ Code string }
)

func (Challenge) action()  {}
func (Serve) action()      {}
func (ZeroHandle) action() {}
func (Reuse) action()      {}
func (Refuse) action()     {}
func (Mint) action()       {}
func (Grant) action()      {}
func (Attest) action()     {}
func (Deny) action()       {}
func (Keep) action()       {}
func (Drop) action()       {}
func (Arm) action()        {}
func (Disarm) action()     {}
func (Notify) action()     {}
func (Close) action()      {}
