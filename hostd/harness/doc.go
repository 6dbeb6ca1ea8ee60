// Package harness proves which program a launch runs. A program is opened once
// and held: every check, the digest, the version witness and the start use the
// same descriptor, so that what was checked is what runs.
//
//	hold.go     open, check, hash, compare
//	elf.go      is it a sane program of this machine, linked as its contract says
//	lease.go    the kernel's read lease that catches writers between hash and exec
//	witness.go  run the held bytes with --version and nothing else
//	verify.go   all of it for one launch
//
// Contracts of the harnesses are in contracts, copying a vendor tree into
// Sophia's own folder in adopt.
//
// Refusals: managed_harness_missing, _symlink, _not_regular, _hardlinked,
// _foreign_owner, _writable, _open_for_writing, _not_elf, _wrong_machine,
// _not_static, _foreign_interpreter, _library_path, _loader_audit,
// _identity_changed, and unsupported_harness_version.
//
// Imports: messages, contracts.
package harness
