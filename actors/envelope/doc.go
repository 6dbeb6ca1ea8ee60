// Package envelope is the actor that carries a launch's credential to its
// wrapper. The rules are package relay's machine; this package performs its
// actions: each connection is talked to beside the actor, and what was heard
// comes back as a message.
//
//	wrapper ── socket ──▶ Relay (one per launch, Temporary) ◀── Directory ◀── broker
//	                        │ Redeemer, Receipts: the lease mints and attests
//	                        ▼ Fail: the lease ends when the relay closes
//
// Secrets: the handle until it is served; the bearer in passing, and the
// deposit until the relay ends. All are zeroed when the actor stops, also those
// that were on their way in a message.
//
// The package reaches the host through Socket and Client, which hostd/envelope
// implements. Imports: supervise, relay, messages.
package envelope
