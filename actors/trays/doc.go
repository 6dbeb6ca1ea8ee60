// Package trays tells every tray and portal page what waits for the owner: one
// Temporary actor per subscriber, so that none can hold up another, the gate, or
// a launch.
//
// A subscriber first gets what is open, then what changes. One that does not
// fetch its events is dropped when more than MaxQueue of them wait; it
// subscribes again and catches up from what is open then. When one of them
// answers a request, all are told.
//
// Imports: actors/supervise, messages.
package trays
