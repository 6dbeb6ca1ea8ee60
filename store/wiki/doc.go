// Package wiki keeps Markdown pages whose files are the truth:
//
//	<vault>/wiki/<kind>/<slug>.md     front matter, Markdown, [[wikilinks]]
//	         ⇅ written in one Write    table wiki_pages: index and history
//
// Every write through the store replaces the file atomically and signs it with
// the daemon's ed25519 key. A file that was edited by hand is picked up as it
// is, journaled, and marked unsigned. A revert restores the file byte for byte.
//
// The file is replaced before the commit and put back if that fails; a crash in
// between leaves a file that the next Rescan picks up. So there is no file
// without a journal entry, and no entry whose file is lost.
//
// Imports: store, messages.
package wiki
