// Package importdoc brings a folder's files into the store as documents, and
// keeps the passages that search finds in step with them.
//
//	file → SHA-256, MIME type     tier scanned
//	     → text (a blob) → passages with byte offsets   tier searchable
//
// Importing again changes nothing where nothing changed; a file that is gone is
// marked and its passages are removed, its row stays. Markdown, source and plain
// text are kept as they are, so that quotes and offsets are the file's own; of
// HTML the text is taken.
//
// Passages are written by a hook of the documents table, in the same commit as
// the document, so that a revert brings them back.
//
// Imports: store, messages.
package importdoc
