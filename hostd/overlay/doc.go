// Package overlay builds and removes a launch's private configuration home.
//
//	<launch folder>/            0700
//	├─ overlay/                 0700, CODEX_HOME or CLAUDE_CONFIG_DIR
//	│  ├─ auth.json             the one file that is copied; everything else is synthesized
//	│  ├─ config.toml …         by the harness's contract
//	│  ├─ home/                 HOME of an isolated launch
//	│  └─ temp/                 TMPDIR
//	└─ credential.json          where the copy came from, for the way back
//
// Every step goes through directory descriptors (package beneath). What goes
// into the files is decided by package contracts; here it is only written.
//
// Imports: messages, hostd/harness/contracts.
package overlay
