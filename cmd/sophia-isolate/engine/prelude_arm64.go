package engine

// preludeCache is empty: V8's cache is good only for the kind of processor that
// made it, and V8 does not check that. The prelude is compiled at each start.
var preludeCache []byte
