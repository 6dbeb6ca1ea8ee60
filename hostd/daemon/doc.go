// Package daemon starts and stops sophiad for the owner, and finds out where it
// listens.
//
// Where a systemd user manager answers, sophiad runs as sophia-daemon.service:
// an installed unit, or with SOPHIA_HOME a transient one of the same name, so
// that nothing outside that folder is written. Without systemd it is a child
// process of whoever asked.
//
// Imports: hostd/paths, hostd/unit, messages.
package daemon
