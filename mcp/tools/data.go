package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"sophia/mcp/registry"
	"sophia/store"
	"sophia/store/analysis"
	"sophia/store/blobs"
	"sophia/store/wiki"
)

// Data is what the tools of the data groups work on.
type Data struct {
	DB    *store.DB    // reads and previews
	Write store.Writer // the one writer
	Texts blobs.Dir    // of documents
	Wiki  *wiki.Vault
}

// DataTools are the tools of all data groups.
func DataTools(d Data) []registry.Tool {
	var all []registry.Tool
	for _, group := range []func(Data) []registry.Tool{Documents, Knowledge, Code, Pages, Journal, Evidence, Search} {
		all = append(all, group(d)...)
	}
	return all
}

// view opens a snapshot for the caller's scope that ends with the call.
func (d Data) view(ctx context.Context, c *registry.Call) *store.Reader {
	return d.DB.View(store.ScopeOf(c.Authority.Scope)).Until(ctx)
}

// because is the journal's: who, by which call, and why. Of a call that the owner
// approved it does what was shown, or nothing.
func because(c *registry.Call, reason string) store.Cause {
	return store.Cause{Actor: c.Actor(), Scope: store.ScopeOf(c.Authority.Scope), Reason: reason, Call: c.ID, Tool: c.Tool, Expect: c.Approved}
}

// Paging are the arguments of every paged list.
type Paging struct {
	Limit  int    `json:"limit,omitempty" jsonschema:"items on a page" default:"20" min:"1" max:"100"`
	Cursor string `json:"cursor,omitempty" jsonschema:"of the page before, with the same arguments"`
}

// bind ties a cursor to the connection, the tool and its other arguments. in
// must be given without paging.
func bind(c *registry.Call, in any) string {
	b, err := json.Marshal(in)
	if err != nil {
		return "\x00" + rand.Text() // matches no cursor
	}
	sum := sha256.Sum256(b)
	return c.Authority.Connection + "\x00" + c.Tool + "\x00" + string(sum[:])
}

// newID is an identifier for what a call makes: the preview of a call and the
// call itself give the same one.
func newID(c *registry.Call, prefix string) string {
	from := c.ID
	if from == "" {
		from = rand.Text()
	}
	sum := sha256.Sum256([]byte(prefix + "\x00" + c.Authority.Connection + "\x00" + from))
	return prefix + hex.EncodeToString(sum[:5])
}

// snippetSize is how much of a text a hit shows, in bytes.
const snippetSize = 240

// snippet is the piece of a text, on one line, that has most of the query's
// terms.
func snippet(text, query string) string {
	terms := analysis.QueryTerms(query)
	best, bestHits, at := 0, -1, 0
	for line := range strings.Lines(text) {
		has, hits := analysis.Terms(line), 0
		for _, t := range terms {
			if slices.Contains(has, t) {
				hits++
			}
		}
		if hits > bestHits {
			best, bestHits = at, hits
		}
		if hits == len(terms) {
			break
		}
		at += len(line)
	}
	return shorten(text[best:], snippetSize)
}

// shorten puts a text on one line of at most size bytes.
func shorten(text string, size int) string {
	if len(text) > 4*size {
		text = strings.ToValidUTF8(text[:4*size], "")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= size {
		return text
	}
	cut := size
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	if i := strings.LastIndexByte(text[:cut], ' '); i > size/2 {
		cut = i
	}
	return text[:cut] + "…"
}

func defs(ds ...*store.Def) []*store.Def { return ds }
