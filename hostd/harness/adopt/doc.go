// Package adopt copies a harness into Sophia's own folder, where no updater
// and no second hard link reaches it, and where the helpers that it runs by
// path are pinned with it.
//
//	<harnesses>/codex/3f9a…/            named by the tree's digest
//	├─ adopted.json                     what, from where, when, its digest
//	└─ tree/bin/codex …                 read-only; reflinks where the disk can
//
// An upgrade of the original changes nothing here until it is adopted in its
// turn. A folder is complete or not there: it is made under another name and
// renamed.
//
//	adopt.go  copy, verify, witness, publish; list
//	tree.go   the digest of a tree
//	hold.go   a tree held open for a launch
//	find.go   where an installed harness's program lies
//
// Imports: messages, hostd/harness, contracts, hostd/paths.
package adopt
