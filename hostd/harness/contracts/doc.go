// Package contracts says what Sophia knows about each agent CLI ("harness"):
// the version it was witnessed at, how it may be linked, which one file is its
// credential, where it reads configuration from, and how its launch-local
// configuration is composed. It is data and pure functions: nothing here
// touches a file. A further harness is one file.
//
//	contract.go    what a contract consists of
//	set.go         the contracts of this installation, with the owner's settings
//	codex.go       OpenAI Codex
//	claudecode.go  Anthropic Claude Code
//	generic.go     a contract that the owner writes in config.toml
//	credential.go  reading a credential's form without keeping it
//	merge.go       the owner's own configuration, beside what Sophia sets
//
// Imports: messages.
package contracts
