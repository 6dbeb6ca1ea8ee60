package supervise_test

import (
	"testing/synctest"
	"time"
)

// advance <duration> lets virtual time pass.
func handleAdvance(e *traceEnv, b block) {
	time.Sleep(e.duration(b.args[1])) // of the bubble: no real time passes
	synctest.Wait()
}
