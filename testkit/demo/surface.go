package main

import (
	"context"
	"errors"
	"fmt"

	"sophia/testkit/world"
)

// snippet composes three reads in one call, as the specification's own example
// does.
const snippet = `const [briefing, catalog, docs] = await Promise.all([
  sophia.orient({ goal: 'see the demo' }),
  sophia.capabilityCatalog({ brief: true }),
  sophia.searchDocuments({ query: 'supervision tree', limit: 3, compact: true }),
]);
return { sections: Object.keys(briefing).length, tools: catalog.total_tools, hits: docs.items.map(d => d.path) };`

const page = "demo-page"

func (d *demo) showSurface(ctx context.Context, s *summary) error {
	ctx, cancel := step(ctx)
	defer cancel()
	d.step("An agent's connection, which the owner approves, and a client of another make that uses it")
	fmt.Fprintln(d.say, "$ sophia connection mint Demo agent --profile assistant --scope *")
	var minted world.Minted
	if err := d.gated(ctx, s, "Connect Demo agent", func() (err error) {
		minted, err = d.Mint(ctx, "Demo agent", "--profile", "assistant", "--scope", "*")
		return err
	}); err != nil {
		return err
	}
	s.Connection = minted.Connection
	agent, err := world.Connect(ctx, d.mcp, minted)
	if err != nil {
		return err
	}
	defer agent.Close()
	list, err := agent.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	s.Tools = len(list.Tools)
	fmt.Fprintf(d.say, "tools/list: %d tools\n", s.Tools)

	d.step("One execute_code call, three reads composed in the isolate")
	fmt.Fprintln(d.say, snippet)
	var ran struct {
		Status string `json:"status"`
		Value  struct {
			Sections int      `json:"sections"`
			Hits     []string `json:"hits"`
		} `json:"value"`
		Calls int     `json:"sophia_calls"`
		MS    float64 `json:"execution_time_ms"`
	}
	if err := agent.Call(ctx, "sophia.execute_code", map[string]any{"code": snippet}, &ran); err != nil {
		return err
	}
	s.ComposedCalls, s.ComposedHits, s.ComposedMS = ran.Calls, len(ran.Value.Hits), ran.MS
	fmt.Fprintf(d.say, "→ %s: %d calls, %d sections, hits %v, %.0f ms\n", ran.Status, ran.Calls, ran.Value.Sections, ran.Value.Hits, ran.MS)

	d.step("A write: it waits for the owner, who reads the diff in sophia-tray --terminal and types its code")
	return d.writeAndRevert(ctx, agent, s)
}

func (d *demo) writeAndRevert(ctx context.Context, agent *world.Agent, s *summary) error {
	var written struct {
		Mutations []string `json:"mutations"`
	}
	if err := d.gated(ctx, s, "Write wiki page", func() error {
		return agent.Call(ctx, "sophia.write_wiki_page", map[string]any{"slug": page, "title": "Demo", "body": "Written by an agent, approved by its owner."}, &written)
	}); err != nil {
		return err
	}
	if len(written.Mutations) == 0 {
		return fmt.Errorf("the write was not journaled")
	}
	fmt.Fprintf(d.say, "journaled as %s\n", written.Mutations[0])
	var undone struct {
		Mutations []string `json:"mutations"`
	}
	if err := d.gated(ctx, s, "Revert mutation", func() error {
		return agent.Call(ctx, "sophia.revert_mutation", map[string]any{"id": written.Mutations[0], "reason": "shown in the demo"}, &undone)
	}); err != nil {
		return err
	}
	if len(undone.Mutations) == 0 {
		return fmt.Errorf("the revert was not journaled")
	}
	s.Mutations = []string{written.Mutations[0], undone.Mutations[0]}
	fmt.Fprintf(d.say, "undone by %s\n", undone.Mutations[0])
	err := agent.Call(ctx, "sophia.get_wiki_page", map[string]any{"slug": page}, nil)
	if err == nil {
		return fmt.Errorf("the page is still there after the revert")
	}
	gone, ok := errors.AsType[world.Refusal](err)
	if !ok {
		return err
	}
	s.PageAfter = gone.Code
	return nil
}

// gated runs a call that waits for the owner while the owner answers.
func (d *demo) gated(ctx context.Context, s *summary, what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	if err := d.Tray.Approve(ctx, what); err != nil {
		return err
	}
	s.Approvals++
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
