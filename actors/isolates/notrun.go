package isolates

import "sophia/messages"

// NotRun is the result, in its one shape, of code that was not run because of
// what is wrong with it.
func NotRun(why *messages.RunError) messages.RunResult { return failedRun(why) }
