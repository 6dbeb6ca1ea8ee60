// Package launch carries managed launches out on this machine: it compiles
// plans and is the Host that actors/launches decides for.
//
//	planner.go   what would run if it ran now: identities, profile, workspace
//	programs.go  Sophia's own programs and their identities
//	held.go      the harness, verified and held from then on
//	holds.go     which harnesses are held, for whom and how long
//	host.go      start, watch, stop, quiescence, evidence, removal
//
// The pieces are in packages of their own (harness, overlay, evidence,
// manifest, unit); here they are put in order.
package launch
