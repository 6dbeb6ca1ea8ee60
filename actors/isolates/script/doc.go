// Package script is a compiled snippet, and how positions in its JavaScript turn
// back into positions in what the agent wrote. Package compile makes one.
//
// Imports: messages, wrap.
package script
