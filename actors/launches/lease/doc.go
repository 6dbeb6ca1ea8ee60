// Package lease is the life of a managed launch as a pure machine: a lease and
// an event go in, the lease's next state and what to do about it come out. It
// has no goroutines, files or clocks; the actor around it (package launches)
// stores each new state before it performs the actions.
//
//	proposed ─▶ pending_trusted_presence ─▶ approved ─▶ verifying ─▶ starting
//	                 │ denied, expired         │ refused    │ refused    │
//	                 ▼                         ▼            ▼            ▼
//	               (final)                   (final)      (final)    redeeming ─▶ running
//	                                                                     │            │
//	   ended, failed, refused ◀─ evidencing ◀─ quiescing ◀───────────────┴─ stopping ◀┘
//	                                            │    ▲
//	                                            ▼    │
//	                                           unquiet
//
// Two rules hold for every order of events (see the properties in the tests):
// nothing is removed before the unit was proven quiet, and a unit is started at
// most once.
//
// Source: the specification of managed launches, and design 50-launch, "Plan and lease".
package lease
