// Package usermanager runs a real, private systemd user manager with a session
// bus of its own, for tests and the demo, also where PID 1 is not systemd.
//
// Each manager gets a control group of its own. Without that two managers
// started by root would both think that the root group is theirs, and units of
// the same name would share one group and kill each other's processes.
//
//	<dir>/            XDG_RUNTIME_DIR of everything below, mode 0700
//	  bus             the session bus
//	  systemd/private the manager's direct socket
//	  units/          masks for what a desktop would start
//	  manager.log
//
// A guard process holds the other end of a pipe: however the test process ends
// (even by kill -9), the group is killed and removed, and the folder with it.
//
// Needs: systemd, dbus-daemon; root, or a delegated control group; the folder
// /run/systemd/system (systemd --user refuses to start without it; root makes it).
package usermanager
