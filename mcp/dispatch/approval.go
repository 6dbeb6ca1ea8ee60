package dispatch

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"sophia/actors/approvals"
	"sophia/actors/isolates/runclock"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/messages/problem"
)

// ask checks the arguments, shows the owner what would change, and waits. It
// returns the arguments in the canonical form that was approved: what runs is
// what was shown, also where a decoder would read a key given twice in another way.
func (d *Dispatcher) ask(ctx context.Context, tool *registry.Tool, call *registry.Call, r Request) (json.RawMessage, error) {
	if err := tool.Check(r.Args); err != nil {
		return nil, err
	}
	args := r.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	args, err := approvals.Canonical(args)
	if err != nil {
		return nil, err
	}
	digest, err := approvals.CallDigest(tool.Canonical, args, r.Authority.Connection)
	if err != nil {
		return nil, err
	}
	if d.c.Gate == nil {
		return nil, problem.New(CodeNoGate, "%s needs the owner's approval, and nobody can be asked", tool.Canonical).
			WithHint("Start a tray: sophia-tray --terminal.")
	}
	changes, err := tool.Preview(ctx, call, args)
	if err != nil {
		return nil, err // a call that would fail is not put before the owner
	}
	defer runclock.Pause(ctx)() // the owner may take longer than a script may run
	stop := d.heartbeat(call, tool)
	verdict, err := d.c.Gate.Request(ctx, messages.ApprovalRequest{
		Kind: messages.ApproveToolCall, Connection: r.Authority.Connection, Requester: r.Authority.Name,
		Title: tool.Title, Tool: tool.Canonical, Arguments: args, Preview: changes, Digest: digest,
	})
	stop()
	if err != nil {
		return nil, err
	}
	call.Approval, call.Approved = verdict.ID, changes
	switch {
	case verdict.Outcome != messages.OutcomeApproved:
		return nil, refused(tool, verdict)
	case verdict.Digest != digest:
		return nil, problem.New(CodeMismatch, "the approval %s is for another call", verdict.ID).WithHint("Call it again and have it approved anew.")
	}
	return args, d.live(ctx, r.Authority) // the owner may have revoked it meanwhile
}

func refused(tool *registry.Tool, v messages.ApprovalVerdict) *problem.Error {
	why := ""
	if v.Reason != "" {
		why = ": " + v.Reason
	}
	switch v.Outcome {
	case messages.OutcomeDenied:
		return problem.New(codeRefusedStart+v.Outcome, "the owner denied %s%s", tool.Canonical, why).
			WithHint("Don't repeat the call unchanged. Ask the owner what to do instead.")
	case messages.OutcomeTimedOut:
		return problem.New(codeRefusedStart+v.Outcome, "the owner did not answer in time, so %s was not done%s", tool.Canonical, why).
			WithHint("Tell the owner that it waits in the tray, then call it again.")
	}
	return problem.New(codeRefusedStart+messages.OutcomeWithdrawn, "the question to the owner was withdrawn, so %s was not done%s", tool.Canonical, why).
		WithHint("Call it again if you still need it.")
}

// heartbeat tells the caller now and then that the owner is being asked, so
// that its client doesn't give up.
func (d *Dispatcher) heartbeat(call *registry.Call, tool *registry.Tool) (stop func()) {
	if call.Report == nil {
		return func() {}
	}
	message := "Waiting for the owner to approve " + tool.Canonical
	call.Report(0, 0, message)
	done := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		tick := time.NewTicker(d.c.Heartbeat)
		defer tick.Stop()
		for n := 1.0; ; n++ {
			select {
			case <-done:
				return
			case <-tick.C:
				call.Report(n, 0, message)
			}
		}
	})
	return func() { close(done); over.Wait() }
}
