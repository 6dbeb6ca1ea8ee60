package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// summary is what was counted. Its shape is stable.
type summary struct {
	Documents int `json:"documents"` // imported from this checkout
	Symbols   int `json:"symbols"`

	Connection    string   `json:"connection"`
	Tools         int      `json:"tools"` // on the minted connection's tools/list
	ComposedCalls int      `json:"composed_calls"`
	ComposedHits  int      `json:"composed_hits"`
	ComposedMS    float64  `json:"composed_ms"`
	Approvals     int      `json:"approvals"` // answered on a terminal
	Mutations     []string `json:"mutations"` // the write and what undid it
	PageAfter     string   `json:"page_after_revert"`

	Launch         string   `json:"launch"`
	HarnessVersion string   `json:"harness_version"`
	HarnessSHA256  string   `json:"harness_sha256"`
	Unit           string   `json:"unit"`
	States         []string `json:"states"`
	ModelRequests  int      `json:"model_requests"`
	MCPServers     []string `json:"mcp_servers"`    // that the model was offered tools of
	OrientBytes    int      `json:"orient_bytes"`   // of the sophia.orient result that reached the model
	TerminalBytes  int      `json:"terminal_bytes"` // seen by the one viewer
	SecondAttach   string   `json:"second_attach"`
	Survivors      int      `json:"survivors"`
	OverlayGone    bool     `json:"overlay_gone"`
	ConfigTouched  int      `json:"config_touched"` // of the sources below
	ConfigSources  int      `json:"config_sources"`

	Seconds float64 `json:"seconds"`
}

func (s summary) print(out io.Writer) {
	fmt.Fprintln(out, "\nSummary")
	t := tabwriter.NewWriter(out, 2, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("imported", "%d documents, %d symbols of Go code", s.Documents, s.Symbols)
	row("connection", "%s, %d tools", s.Connection, s.Tools)
	row("one call", "%d reads composed, %d hits, %.0f ms", s.ComposedCalls, s.ComposedHits, s.ComposedMS)
	row("a write", "approved on a terminal, journaled as %s, undone by %s", s.Mutations[0], s.Mutations[1])
	row("a launch", "%s of %s, verified as %.12s…", s.Launch, s.HarnessVersion, s.HarnessSHA256)
	row("its states", "%v", s.States)
	row("its model", "%d requests, tools of %v only, %d bytes of sophia.orient", s.ModelRequests, s.MCPServers, s.OrientBytes)
	row("its terminal", "%d bytes seen; a second attach: %s", s.TerminalBytes, s.SecondAttach)
	row("its end", "%d processes left, overlay gone: %v, %d of %d configuration sources touched", s.Survivors, s.OverlayGone, s.ConfigTouched, s.ConfigSources)
	row("approvals", "%d", s.Approvals)
	row("in all", "%.1f s", s.Seconds)
	t.Flush()
}
