package engine

import _ "embed"

// preludeCache is what V8 made of the prelude, with all that a short run uses of
// it compiled, and the checksum of the text that it was made of. It saves a fifth
// of a worker's start. `go test ./cmd/sophia-isolate/engine -run Prelude -update`
// makes it again.
//
//go:embed prelude.cache
var preludeCache []byte
