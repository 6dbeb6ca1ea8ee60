package supervise_test

// What happens in hollywood v1.0.5 itself, and does not happen here: one test
// for each row of the table in the design.

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

// crashy does what its messages say.
func crashy(c *actor.Context) {
	switch c.Message() {
	case "panic":
		panic("asked to")
	case "goexit":
		runtime.Goexit()
	case "exit":
		supervise.Exit(c, nil)
	case "ping":
		supervise.ReplyTo(c).Send("pong")
	}
}

func TestPitfall_ExhaustedRestartsEndTheTreeAndNotTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{Max: 2, Within: time.Minute}, is("a", crashy))
		for range 3 {
			send(t, tree.Ref("a"), "panic")
			synctest.Wait()
		}
		<-tree.Done()
		gaveUp, ok := errors.AsType[*supervise.GaveUpError](tree.Err())
		if !ok || gaveUp.Child != "a" || gaveUp.Max != 2 || gaveUp.Path != "root" {
			t.Errorf("the tree ended with %v", tree.Err())
		}
		if p, ok := errors.AsType[*supervise.PanicError](tree.Err()); !ok || p.Value != "asked to" {
			t.Errorf("the reason hides the panic: %v", tree.Err())
		}
	})
}

func TestPitfall_NoRestartsAllowedEndsAtTheFirstPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{Max: 0}, is("a", crashy))
		send(t, tree.Ref("a"), "panic")
		<-tree.Done()
		if _, ok := errors.AsType[*supervise.GaveUpError](tree.Err()); !ok {
			t.Errorf("the tree ended with %v", tree.Err())
		}
	})
}

func TestPitfall_PanicInStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log events
		tree := start(t, supervise.Policy{Max: 3, Report: log.report}, is("a", func(c *actor.Context) {
			if _, ok := c.Message().(actor.Stopped); ok {
				panic("in Stopped")
			}
			crashy(c)
		}))
		send(t, tree.Ref("a"), "panic")
		synctest.Wait()
		if tree.Ref("a") == nil {
			t.Fatal("it did not restart")
		}
		stop(t, tree)
		// The first reason counts; the one in Stopped does when there was none.
		log.want(t, "exited", "exited root/a#1: panic: asked to", "exited root/a#2: panic: in Stopped")
	})
}

func TestPitfall_PanicInNewOnRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log events
		lives := 0
		tree := start(t, supervise.Policy{Max: 3, Report: log.report}, supervise.Spec{ID: "a", New: func() actor.Receiver {
			if lives++; lives == 2 {
				panic("can't build")
			}
			return fn(crashy)
		}})
		send(t, tree.Ref("a"), "panic")
		synctest.Wait()
		if v, err := tree.Ref("a").Ask(context.Background(), "ping"); v != "pong" {
			t.Errorf("the third life answers %v, %v", v, err)
		}
		log.want(t, "exited", "exited root/a#1: panic: asked to", "exited root/a#2: panic: can't build")
		stop(t, tree)
	})
}

func TestPitfall_TwoStopsBothReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{}, is("a", crashy), is("b", crashy))
		returned := make(chan error, 4)
		for range 2 {
			go func() { returned <- tree.Remove(context.Background(), "a") }()
			go func() {
				_, err := tree.Stop(context.Background())
				returned <- err
			}()
		}
		for range 4 {
			if err := <-returned; err != nil && !errors.Is(err, supervise.ErrUnknown) {
				t.Error(err)
			}
		}
		stop(t, tree) // and once more, when it is over
	})
}

// Without a bubble: this needs real parallelism.
func TestPitfall_SendsRacingAStopAreAllAccountedFor(t *testing.T) {
	for range 200 {
		var handled, dead, accepted atomic.Int64
		tree := start(t, supervise.Policy{Report: func(e supervise.Event) {
			if d, ok := e.(supervise.DeadLetter); ok {
				dead.Add(int64(d.Count))
			}
		}}, is("a", func(c *actor.Context) {
			if _, ok := c.Message().(int); ok && handled.Add(1) == 50 {
				supervise.Exit(c, nil)
			}
		}))
		ref := tree.Ref("a")
		done := make(chan struct{})
		for range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for i := 0; ; i++ {
					switch err := ref.Send(i); {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, supervise.ErrDown):
						return
					default:
						runtime.Gosched() // full
					}
				}
			}()
		}
		for range 4 {
			<-done
		}
		<-tree.Done() // one failure is too many for this tree
		if handled.Load()+dead.Load() != accepted.Load() {
			t.Fatalf("%d accepted, %d handled, %d dead letters", accepted.Load(), handled.Load(), dead.Load())
		}
	}
}

func TestPitfall_NextLifeWaitsForStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		running := 0
		most := 0
		tree := start(t, supervise.Policy{Max: 3}, is("a", func(c *actor.Context) {
			switch c.Message().(type) {
			case actor.Initialized:
				running++
				most = max(most, running)
			case actor.Stopped:
				<-stopping
				running--
			}
			crashy(c)
		}))
		first := tree.Ref("a")
		send(t, first, "panic")
		synctest.Wait()
		if tree.Ref("a") != first {
			t.Error("a new life began while the old one handled its Stopped")
		}
		if err := first.Send("ping"); !errors.Is(err, supervise.ErrDown) {
			t.Errorf("the dying life takes messages: %v", err)
		}
		close(stopping)
		synctest.Wait()
		if next := tree.Ref("a"); next == nil || next == first || most != 1 {
			t.Errorf("next life %v, at most %d ran at once", next, most)
		}
		stop(t, tree)
	})
}

func TestPitfall_DeadSubscriberOfTheEventStreamHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t)
		subscriber := e.SpawnFunc(func(*actor.Context) {}, "subscriber")
		e.Subscribe(subscriber)
		synctest.Wait()
		tree, err := supervise.Start(e, "root", supervise.Policy{Max: 3}, is("a", crashy))
		if err != nil {
			t.Fatal(err)
		}
		e.Unsubscribe(subscriber) // it would be sent dead letters about itself for ever
		<-e.Stop(subscriber).Done()
		send(t, tree.Ref("a"), "panic")
		synctest.Wait()
		if v, err := tree.Ref("a").Ask(context.Background(), "ping"); v != "pong" {
			t.Errorf("after a restart it answers %v, %v", v, err)
		}
		stop(t, tree)
	})
}

func TestPitfall_AskOfADeadActorFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{Max: 9}, is("a", crashy))
		ref := tree.Ref("a")
		begin := time.Now()
		if _, err := ref.Ask(context.Background(), "panic"); !errors.As(err, new(*supervise.DownError)) || !errors.Is(err, supervise.ErrDown) {
			t.Errorf("an ask that crashes the actor: %v", err)
		}
		synctest.Wait()
		if _, err := ref.Ask(context.Background(), "ping"); err != supervise.ErrDown {
			t.Errorf("an ask of a life that is over: %v", err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
		stop(t, tree)
	})
}

func TestPitfall_InboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log events
		proceed := make(chan struct{})
		spec := is("a", func(c *actor.Context) {
			if c.Message() == "wait" {
				<-proceed
			}
		})
		spec.Inbox = 3
		tree := start(t, supervise.Policy{Report: log.report}, spec)
		ref := tree.Ref("a")
		send(t, ref, "wait")
		synctest.Wait()
		for range 3 {
			send(t, ref, "x")
		}
		for range 5 {
			if err := ref.Send("x"); err != supervise.ErrFull {
				t.Errorf("the fourth waiting message: %v", err)
			}
		}
		if s := tree.Snapshot()[0]; s.Queued != 3 || s.Refused != 5 {
			t.Errorf("the snapshot says %d queued, %d refused", s.Queued, s.Refused)
		}
		close(proceed)
		synctest.Wait()
		send(t, ref, "x")
		log.want(t, "full", "full root/a#1: limit 3, refused 1", "full root/a#1: limit 3, refused 2", "full root/a#1: limit 3, refused 4")
		stop(t, tree)
	})
}

func TestPitfall_GoexitIsAnExit(t *testing.T) {
	for _, at := range []string{"message", "Initialized", "Started", "Stopped"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log events
				first, stopped := true, 0
				tree, err := supervise.Start(engine(t), "root", supervise.Policy{Max: 3, Report: log.report}, is("a", func(c *actor.Context) {
					here := false
					switch c.Message().(type) {
					case actor.Initialized:
						here = at == "Initialized"
					case actor.Started:
						here = at == "Started"
					case actor.Stopped:
						stopped++
						here = at == "Stopped"
					default:
						here = at == "message"
					}
					if here && first {
						first = false
						runtime.Goexit()
					}
				}))
				if at == "Initialized" || at == "Started" {
					if !errors.Is(err, supervise.ErrGoexit) {
						t.Errorf("start: %v", err)
					}
				} else {
					if at == "message" {
						send(t, tree.Ref("a"), "x")
						synctest.Wait()
						if tree.Ref("a") == nil {
							t.Fatal("it did not restart")
						}
					}
					stop(t, tree)
				}
				if lines := log.lines("runtime.Goexit"); len(lines) == 0 || lines[0] != "exited root/a#1: supervise: the actor called runtime.Goexit" {
					t.Errorf("reported %q", lines)
				}
				if lives := len(log.lines("exited")); stopped != lives {
					t.Errorf("%d lives, and Stopped was handled %d times", lives, stopped)
				}
			})
		})
	}
}

func TestPitfall_TimersDieWithTheirLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rung := 0
		lives := 0
		tree := start(t, supervise.Policy{Max: 3}, is("a", func(c *actor.Context) {
			switch c.Message().(type) {
			case actor.Started:
				if lives++; lives == 1 {
					supervise.After(c, time.Hour, true)
				}
			case bool:
				rung++
			}
			crashy(c)
		}))
		send(t, tree.Ref("a"), "panic")
		time.Sleep(2 * time.Hour) // of the bubble
		synctest.Wait()
		if rung != 0 || lives != 2 {
			t.Errorf("in life %d the timer of the first one rang %d times", lives, rung)
		}
		stop(t, tree)
	})
}
