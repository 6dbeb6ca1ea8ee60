package supervise_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthdm/hollywood/actor"

	"sophia/actors/supervise"
)

func TestGo_ResultComesBackAsAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan any, 1)
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			switch m := c.Message().(type) {
			case string:
				supervise.Go(c, func(ctx context.Context) any {
					time.Sleep(time.Hour) // of the bubble: the actor is free meanwhile
					return len(m)
				})
				supervise.ReplyTo(c).Send("begun")
			case int:
				got <- m
			}
		}))
		if v, err := tree.Ref("a").Ask(context.Background(), "four"); v != "begun" {
			t.Error(v, err)
		}
		if v := <-got; v != 4 {
			t.Errorf("got %v", v)
		}
		stop(t, tree)
	})
}

func TestGo_ResultOfALifeThatIsOverIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log events
		tree := start(t, supervise.Policy{Report: log.report}, is("a", func(c *actor.Context) {
			if c.Message() == "go" {
				supervise.Go(c, func(ctx context.Context) any { <-ctx.Done(); return "late" })
			}
		}))
		send(t, tree.Ref("a"), "go")
		synctest.Wait()
		stop(t, tree)
		log.want(t, "root/a", "started root/a#1", "dead letter of root/a#1: string", "exited root/a#1: supervise: stopped by the tree")
	})
}

func TestTimer_StopIsExactEvenWhenTheMessageIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timer *supervise.Timer
		var rung, stopped bool
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			switch c.Message() {
			case "set":
				timer = supervise.After(c, time.Second, "ring")
			case "busy":
				time.Sleep(time.Minute) // of the bubble: the timer fires meanwhile and waits in the inbox
				stopped = timer.Stop()
			case "ring":
				rung = true
			}
		}))
		send(t, tree.Ref("a"), "set")
		send(t, tree.Ref("a"), "busy")
		time.Sleep(time.Hour)
		synctest.Wait()
		if rung || !stopped {
			t.Errorf("rung %v, Stop said %v", rung, stopped)
		}
		send(t, tree.Ref("a"), "set")
		time.Sleep(time.Hour)
		synctest.Wait()
		if !rung || timer.Stop() {
			t.Errorf("rung %v; or Stop says that it stopped what had rung", rung)
		}
		stop(t, tree)
	})
}

func TestReply_LaterFromAnotherGoroutineAndOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			switch c.Message() {
			case "slow":
				reply := supervise.ReplyTo(c)
				supervise.Go(c, func(context.Context) any {
					time.Sleep(time.Second)
					reply.Send(1)
					reply.Send(2)
					return nil
				})
			case "error":
				supervise.ReplyTo(c).Send(errors.New("no"))
			case "nothing":
				supervise.ReplyTo(c).Send(nil)
			}
		}))
		ref := tree.Ref("a")
		if v, err := ref.Ask(context.Background(), "slow"); v != 1 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		if v, err := ref.Ask(context.Background(), "error"); v != nil || err == nil || err.Error() != "no" {
			t.Errorf("got %v, %v", v, err)
		}
		if v, err := ref.Ask(context.Background(), "nothing"); v != nil || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := ref.Ask(ctx, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ask that nobody waits for: %v", err)
		}
		send(t, ref, "error") // nobody asked: the reply goes nowhere
		time.Sleep(time.Minute)
		stop(t, tree)
	})
}

// Whoever hands a secret over must know whose it is then.
func TestReply_SaysWhetherItWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open supervise.Reply
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			if _, ok := c.Message().(string); ok {
				open = supervise.ReplyTo(c)
			}
		}))
		for _, answered := range []bool{true, false} {
			for range 50 {
				ctx, cancel := context.WithCancel(context.Background())
				got := make(chan any)
				go func() { v, _ := tree.Ref("a").Ask(ctx, "wait"); got <- v }()
				synctest.Wait()
				if answered {
					if !open.Send(1) {
						t.Fatal("an answer that was waited for was not taken")
					}
					cancel()
					if v := <-got; v != 1 {
						t.Fatalf("an answer that was handed over got lost: %v", v)
					}
					continue
				}
				cancel()
				if v := <-got; v != nil || open.Send(1) {
					t.Fatalf("handed over to nobody: %v", v)
				}
			}
		}
		stop(t, tree)
	})
}

func TestReply_StoppedMayStillAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open supervise.Reply
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			switch c.Message().(type) {
			case string:
				open = supervise.ReplyTo(c)
			case actor.Stopped:
				open.Send("goodbye")
			}
		}))
		got := make(chan any)
		ref := tree.Ref("a")
		go func() { v, _ := ref.Ask(context.Background(), "wait"); got <- v }()
		synctest.Wait()
		go tree.Stop(context.Background())
		if v := <-got; v != "goodbye" {
			t.Errorf("got %v", v)
		}
		if open.Wanted() {
			t.Error("an answered ask is still wanted")
		}
		<-tree.Done()
	})
}

func TestMonitor_HearsAtOnceOfWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []supervise.Down
		tree := start(t, supervise.Policy{Max: 9}, is("watcher", func(c *actor.Context) {
			if d, ok := c.Message().(supervise.Down); ok {
				heard = append(heard, d)
			}
		}), is("a", crashy))
		first := tree.Ref("a")
		send(t, first, "panic")
		synctest.Wait()
		first.Monitor(tree.Ref("watcher"))
		tree.Ref("a").Monitor(tree.Ref("watcher"))
		synctest.Wait()
		if len(heard) != 1 || heard[0].Ref != first {
			t.Fatalf("heard %v", heard)
		}
		stop(t, tree)
		if len(heard) != 2 || !errors.Is(heard[1].Reason, supervise.ErrShutdown) {
			t.Errorf("heard %v", heard)
		}
	})
}

func TestMonitor_OfATree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []supervise.Down
		tree := start(t, supervise.Policy{Max: 9}, is("watcher", func(c *actor.Context) {
			if d, ok := c.Message().(supervise.Down); ok {
				heard = append(heard, d)
			}
		}))
		ref, err := tree.Add(supervise.Spec{ID: "n", Tree: &supervise.TreeSpec{Kids: []supervise.Spec{is("x", crashy)}}, Restart: supervise.Temporary})
		if err != nil || ref.Tree() == nil || ref.Tree() != tree.Sub("n") {
			t.Fatal(ref, err)
		}
		if err := ref.Send("x"); !errors.Is(err, supervise.ErrDown) {
			t.Errorf("a message to a tree: %v", err)
		}
		ref.Monitor(tree.Ref("watcher"))
		send(t, tree.Ref("n/x"), "panic")
		synctest.Wait()
		if len(heard) != 1 || !errors.As(heard[0].Reason, new(*supervise.GaveUpError)) {
			t.Errorf("heard %v", heard)
		}
		if tree.Ref("n") != nil || tree.Ref("n/x") != nil {
			t.Error("the temporary tree is still there")
		}
		stop(t, tree)
	})
}

func TestLookup_FollowsRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{Max: 9, Backoff: supervise.Backoff{Base: time.Second}},
			supervise.Spec{ID: "n", Tree: &supervise.TreeSpec{Policy: supervise.Policy{Max: 0}, Kids: []supervise.Spec{is("x", crashy)}}})
		x := tree.Lookup("n/x")
		if err := x.Send("panic"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := x.Send("ping"); !errors.Is(err, supervise.ErrDown) {
			t.Errorf("between two lives: %v", err)
		}
		if _, err := x.Ask(context.Background(), "ping"); !errors.Is(err, supervise.ErrDown) {
			t.Errorf("between two lives: %v", err)
		}
		time.Sleep(time.Minute)
		if v, err := x.Ask(context.Background(), "ping"); v != "pong" {
			t.Errorf("after the restart: %v, %v", v, err)
		}
		stop(t, tree)
	})
}

func TestHome_ActorsAddTheirSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			if c.Message() == "grow" {
				home, reply := supervise.Home(c), supervise.ReplyTo(c)
				supervise.Go(c, func(context.Context) any {
					_, err := home.Add(is("b", crashy))
					reply.Send(err)
					return nil
				})
			}
		}))
		if _, err := tree.Ref("a").Ask(context.Background(), "grow"); err != nil {
			t.Fatal(err)
		}
		if v, _ := tree.Ref("b").Ask(context.Background(), "ping"); v != "pong" {
			t.Error("b does not answer")
		}
		stop(t, tree)
	})
}

func TestContext_EndsWithTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ctx context.Context
		var inStopped error
		tree := start(t, supervise.Policy{}, is("a", func(c *actor.Context) {
			ctx = supervise.Context(c)
			if _, ok := c.Message().(actor.Stopped); ok {
				inStopped = ctx.Err()
			}
		}))
		if ctx.Err() != nil {
			t.Error("it has ended already")
		}
		stop(t, tree)
		if inStopped != nil || ctx.Err() == nil {
			t.Errorf("in Stopped: %v, afterwards: %v", inStopped, ctx.Err())
		}
	})
}

func TestSend_LifecycleMessagesComeFromTheTreeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{}, is("a", crashy))
		for _, m := range []any{actor.Initialized{}, actor.Started{}, actor.Stopped{}} {
			if tree.Ref("a").Send(m) == nil {
				t.Errorf("%T was accepted", m)
			}
		}
		if v, err := tree.Ref("a").Ask(context.Background(), "ping"); v != "pong" {
			t.Error(v, err)
		}
		stop(t, tree)
	})
}

func TestPanicError_SaysWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{}, is("a", crashy))
		send(t, tree.Ref("a"), "panic")
		<-tree.Done()
		p, ok := errors.AsType[*supervise.PanicError](tree.Err())
		if !ok || !strings.HasPrefix(p.Stack(), "sophia/actors/supervise_test.crashy\n") {
			t.Errorf("the stack begins with\n%s", p.Stack())
		}
	})
}

func TestStart_RefusesBadSpecs(t *testing.T) {
	e := engine(t)
	ok := is("a", crashy)
	for name, kids := range map[string][]supervise.Spec{
		"no ID":            {is("", crashy)},
		"slash":            {is("a/b", crashy)},
		"hash":             {is("a#1", crashy)},
		"twice":            {ok, ok},
		"nothing":          {{ID: "a"}},
		"both":             {{ID: "a", New: ok.New, Tree: &supervise.TreeSpec{}}},
		"restart":          {{ID: "a", New: ok.New, Restart: 9}},
		"inbox":            {{ID: "a", New: ok.New, Inbox: -1}},
		"below":            {{ID: "a", Tree: &supervise.TreeSpec{Kids: []supervise.Spec{{ID: "b"}}}}},
		"nested strategy":  {{ID: "a", Tree: &supervise.TreeSpec{Policy: supervise.Policy{Strategy: 7}}}},
		"New returns none": {{ID: "a", New: func() actor.Receiver { return nil }}},
	} {
		if tree, err := supervise.Start(e, "root", supervise.Policy{}, kids...); err == nil {
			t.Errorf("%s: was started", name)
			stop(t, tree)
		}
	}
	tree := start(t, supervise.Policy{})
	defer stop(t, tree)
	if _, err := tree.Add(is("a/b", crashy)); err == nil {
		t.Error("Add took a bad ID")
	}
}

func TestStart_PathsAreUniqueOnAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t)
		tree, err := supervise.Start(e, "root", supervise.Policy{}, is("a", crashy))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := supervise.Start(e, "root", supervise.Policy{}, is("a", crashy)); !errors.Is(err, supervise.ErrExists) {
			t.Errorf("a second tree of that name: %v", err)
		}
		if v, _ := tree.Ref("a").Ask(context.Background(), "ping"); v != "pong" {
			t.Error("the first tree suffered")
		}
		stop(t, tree)
		synctest.Wait()
		again, err := supervise.Start(e, "root", supervise.Policy{}, is("a", crashy))
		if err != nil {
			t.Fatalf("the name is not free after the end: %v", err)
		}
		stop(t, again)
	})
}

func TestReport_APanicInTheHookIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := start(t, supervise.Policy{Max: 9, Report: func(supervise.Event) { panic("in the hook") }}, is("a", crashy))
		send(t, tree.Ref("a"), "panic")
		synctest.Wait()
		if v, err := tree.Ref("a").Ask(context.Background(), "ping"); v != "pong" {
			t.Error(v, err)
		}
		stop(t, tree)
	})
}

func TestStop_ContextEndsTheWaitAndNotTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := is("a", func(c *actor.Context) {
			if c.Message() == "hang" {
				<-supervise.Context(c).Done()
			}
		})
		spec.Stop.Grace = time.Hour
		tree := start(t, supervise.Policy{}, spec)
		send(t, tree.Ref("a"), "hang")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := tree.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		begin := time.Now()
		<-tree.Done()
		if took := time.Since(begin); took != time.Hour-time.Second {
			t.Errorf("it ended %v later", took)
		}
	})
}

// Ten years of a crash loop with a back-off of up to a day, in milliseconds.
func TestBackoff_YearsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lives atomic.Int64
		tree := start(t, supervise.Policy{Max: 1 << 30, Within: 48 * time.Hour, Backoff: supervise.Backoff{Base: time.Second, Max: 24 * time.Hour, Jitter: 0.2}},
			is("a", func(c *actor.Context) {
				if _, ok := c.Message().(actor.Started); ok && lives.Add(1) > 1 {
					panic("again")
				}
				crashy(c)
			}))
		send(t, tree.Ref("a"), "panic")
		time.Sleep(10 * 365 * 24 * time.Hour)
		// At least once a day, at most once in 0.8 days, and some more in the first day.
		if n := lives.Load(); n < 3650 || n > 3650*10/8+40 {
			t.Errorf("%d lives", n)
		}
		stop(t, tree)
	})
}
