// Package modelapi is a scripted model on loopback: the OpenAI Responses API
// (what Codex speaks) and the Anthropic Messages API (what Claude Code speaks),
// as far as an offline session of those two needs them.
//
//	turn 1..n   the model calls the n scripted tools, one a turn
//	turn n+1    the model says the final text
//
// Which turn it is, is read off the request (how many tool results it carries),
// so the server keeps no conversation state and any number of sessions can talk
// to it. A request that offers no tools (titles, quota probes) gets the final
// text. Every request is recorded.
//
// Imports: the standard library only. Only tests and testkit import it.
package modelapi
