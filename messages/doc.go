// Package messages has every message that crosses between actors, grouped by
// flow, one file a flow: plain structs with no behaviour.
//
//	connection.go  who calls, and what it may do
//	approval.go    what waits for the owner, and the answer
//	isolate.go     a run of execute_code
//	launch.go      a managed launch: profile, plan, lease, manifest, report
//	envelope.go    the credential's way from the daemon to the wrapper
//
// Imports: the standard library only.
package messages
