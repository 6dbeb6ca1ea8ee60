// Package launches runs managed launches. Each launch is a subtree:
//
//	launches          dynamic; also a reaper, and a reconciler at its start
//	└─ lp-…           RestForOne
//	   ├─ lease       the machine of package lease; every state is stored before its actions
//	   ├─ envelope    Temporary: a second life would be a second handing-out; its end fails the launch closed
//	   ├─ unit        watches the systemd unit
//	   └─ cleanup     the quiescence gate: evidence and removal only after the unit was proven quiet
//
// The package decides; what touches the host (harness, overlay, systemd, the
// store) is behind the interfaces in ports.go, which cmd/sophiad fills in.
package launches
