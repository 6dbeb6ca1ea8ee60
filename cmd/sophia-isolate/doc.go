// Program sophia-isolate is one V8 worker: it starts V8, locks itself down, says
// that it is ready, runs one snippet and waits for its end. The daemon starts it with
// the protocol of sophia/actors/isolates/wire on its standard input and output;
// it has no use on its own. It is the only program that links C++.
package main
