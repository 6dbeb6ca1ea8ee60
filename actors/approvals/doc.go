// Package approvals is the gate: what an agent may not do by itself waits here
// for the owner's answer.
//
//	Request ──► recorded ──► waiting ──► answered, recorded ──► the caller is told
//	                            │ ▲
//	          Decide, time-out, ┘ └ trays are told
//	          caller gone
//
// An answer holds for one request, once: it is the state of one Temporary actor
// per request, which takes the first answer and refuses every other. It is bound
// to the digest of what was shown. It is on disk before anybody acts on it. All
// that goes wrong ends in a refusal: a crash of the actor, of the daemon, of the
// disk.
//
// Imports: actors/supervise, messages.
package approvals
