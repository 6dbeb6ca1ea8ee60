// Package unit runs a launch as a transient unit of the user's systemd
// manager, watches it, ends it, and proves that nothing of it is left.
//
//	Spec        what the unit is: the properties of the specification, as data
//	Manager     the connection to systemd: Start, Watch, Stop, OwnUnit
//	Group       the unit's control group in the v2 tree, held by descriptor
//	Survivors   processes of a launch that left its control group
//	WaitQuiet   the proof: the group is empty or gone, and nobody survives elsewhere
//
// Control groups are read in the cgroup2 tree, on a hybrid host below
// /sys/fs/cgroup/unified: cgroup.events and cgroup.kill exist there only.
//
// Imports: messages, go-systemd and godbus.
package unit
