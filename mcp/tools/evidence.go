package tools

import (
	"context"

	"sophia/mcp/registry"
	"sophia/messages/problem"
	"sophia/store/evidence"
)

// EvidenceCheck says whether a quote holds. No model takes part in it.
type EvidenceCheck struct {
	Grounded    bool   `json:"grounded"`
	Document    string `json:"document"`
	Path        string `json:"path"`
	Offset      *int   `json:"offset,omitempty" jsonschema:"byte offset of the quote in the document's text"`
	Occurrences int    `json:"occurrences"`
	Code        string `json:"code,omitempty" jsonschema:"why not: quote_not_found, quote_too_long, quote_empty"`
	Message     string `json:"message,omitempty"`
	Hint        string `json:"hint,omitempty"`
}

// Evidence are the tools of preflight.
func Evidence(d Data) []registry.Tool {
	return []registry.Tool{
		registry.Define(registry.Spec{Name: "check_evidence", Group: registry.Preflight,
			Summary:     "Check that a quote is in a document, word for word",
			Description: "A quote is evidence when it is a literal substring of the document's text and at most 300 characters long. Use it before remember_fact.",
			Effects:     registry.Effects{Reads: []string{"documents"}}, Core: true}, d.checkEvidence),
	}
}

type checkEvidenceIn struct {
	Document string `json:"document" jsonschema:"doc-…" min:"1"`
	Quote    string `json:"quote" jsonschema:"verbatim words of the document"`
}

func (d Data) checkEvidence(ctx context.Context, c *registry.Call, in checkEvidenceIn) (EvidenceCheck, error) {
	r := d.view(ctx, c)
	defer r.Close()
	doc, text, err := d.document(r, in.Document)
	if err != nil {
		return EvidenceCheck{}, err
	}
	out := EvidenceCheck{Document: doc.ID, Path: doc.Path}
	at, n, err := evidence.Check(text, in.Quote)
	if err != nil {
		p := problem.Of(err)
		out.Code, out.Message, out.Hint = p.Code, p.Message, p.Hint
		return out, nil
	}
	out.Grounded, out.Offset, out.Occurrences = true, &at, n
	return out, nil
}
