// Package relay is the rules by which a launch's credential reaches its wrapper,
// as a pure machine: Core. The actor that performs its actions is package envelope.
//
//	        Answered by a checked peer        Redeem          Minted        Prove          Deposit
//	waiting ──────────────────────────▶ served ─────▶ redeeming ─────▶ redeemed ─────▶ proven ──────▶ deposited ⟲ reused
//	   │ unconsumed                        │ settle       │              │               │              │
//	   └───────────────────────────────────┴──────────────┴── holder lost, second redemption, crash, lease over ─▶ gone
//
// What holds in every state:
//   - The handle is served to one connection, once, and zeroed there and then.
//     Only its SHA-256 stays, to recognize the redemption.
//   - A connection is challenged before it is served; the answer must come from
//     the very process that was checked.
//   - A peer that is in order while another holds the envelope is parked and gets
//     the deposit, or a refusal, when it is decided.
//   - The deposit is taken only from the holder, only after the daemon itself
//     has seen the proof, and only if it is the bearer that was minted.
//   - A second redemption with the right handle means that somebody else has
//     it: the relay is gone and the lease ends.
//   - gone is final. Nothing is handed out there, and there is no way back: a
//     relay that dies fails its launch closed.
//
// `just model` explores every interleaving of two wrappers, a thief, crashes
// and timeouts over this machine. Imports: the standard library.
package relay
