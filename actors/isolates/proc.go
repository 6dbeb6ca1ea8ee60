package isolates

import (
	"context"
	"io"
	"time"
)

// Proc is a worker's process. Its input and output carry package wire.
type Proc interface {
	io.Reader // the worker's output; EOF when it has ended
	io.Writer // the worker's input
	// Kill ends the process at once. It may be called at any time and again.
	Kill()
	// Wait returns how the process ended, after it has. It may be called again.
	Wait() Exit
}

// Spawn starts a process.
type Spawn func(ctx context.Context) (Proc, error)

// Exit is how a process ended.
type Exit struct {
	Signal string // "" when it exited by itself
	Code   int
	Stderr string        // its end, bounded
	CPU    time.Duration // user and system
}
