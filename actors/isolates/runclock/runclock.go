// Package runclock lets what a run calls stop the run's clock.
//
// A snippet may take ten seconds, and the owner may take two minutes to answer
// an approval that it asked for. Whoever waits for the owner writes
//
//	resume := runclock.Pause(ctx)
//	defer resume()
//
// with the context that the call came with. Outside a run both do nothing.
//
// Imports: the standard library.
package runclock

import (
	"context"
	"sync"
)

type key struct{}

// With returns a context for a call of a run. pause stops the run's clock and
// returns what starts it again; pauses may overlap.
func With(ctx context.Context, pause func() (resume func())) context.Context {
	return context.WithValue(ctx, key{}, pause)
}

// Pause stops the clock of the run that ctx belongs to until resume is called.
// Resuming twice counts once.
func Pause(ctx context.Context) (resume func()) {
	pause, ok := ctx.Value(key{}).(func() func())
	if !ok {
		return func() {}
	}
	return sync.OnceFunc(pause())
}
