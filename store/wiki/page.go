package wiki

import (
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"time"

	"sophia/messages/problem"
	"sophia/store/tables"
)

// Kinds of pages (spec neighbours, Wiki). The first is the default.
func Kinds() []string {
	return []string{"note", "arc-scratchpad", "entity-profile", "decision", "glossary"}
}

// Signature states of a page.
const (
	Signed   = "valid"
	Unsigned = "unsigned" // edited by hand
	Forged   = "invalid"  // changed after it was signed
)

// maxPage is the largest page in bytes.
const maxPage = 512 << 10

var slugs = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// CheckName refuses what can't be a page's kind and slug. Codes:
// wiki_kind_unknown, wiki_slug_invalid.
func CheckName(kind, slug string) error {
	if !slices.Contains(Kinds(), kind) {
		return problem.New("wiki_kind_unknown", "there is no kind of wiki page %q", kind).WithValid(Kinds()...)
	}
	if len(slug) > 100 || !slugs.MatchString(slug) {
		return problem.New("wiki_slug_invalid", "%q can't be the slug of a wiki page", slug).
			WithHint("Use up to 100 lower-case letters and digits with single hyphens between, e.g. release-plan.")
	}
	return nil
}

// Draft is a page to be written.
type Draft struct {
	Kind, Slug string
	Title      string
	Body       string // Markdown
	Tags       []string
	Entity     string
	Shared     bool
}

// compose makes the signed file of a draft. Front matter that old has and
// Sophia does not know is kept.
func (v *Vault) compose(d Draft, old *tables.WikiPage) (tables.WikiPage, error) {
	var f front
	if old != nil {
		f, _, _ = cut(old.File)
	}
	f.set("title", quote(d.Title))
	f.set("tags", brackets(d.Tags))
	f.set("entity", quoteIfAny(d.Entity))
	shared := ""
	if d.Shared {
		shared = "true"
	}
	f.set("shared", shared)
	f.set("signature", "")
	body := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(d.Body)
	if !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	sig := ed25519.Sign(v.key, signedText(d.Kind, d.Slug, f, body))
	f.set("signature", "ed25519:"+base64.StdEncoding.EncodeToString(sig))
	file := f.file(body)
	if len(file) > maxPage {
		return tables.WikiPage{}, problem.New("wiki_page_too_large", "the page has %d bytes; at most %d are allowed", len(file), maxPage).
			WithHint("Split it into several pages that link to each other.")
	}
	return v.parse(d.Kind, d.Slug, file, time.Time{}), nil
}

// signedText is what a signature covers: the page's name and all of its file
// but the signature.
func signedText(kind, slug string, f front, body string) []byte {
	f.lines = slices.Clone(f.lines)
	f.set("signature", "")
	return []byte("sophia wiki page 1\x00" + tables.PageKey(kind, slug) + "\x00" + f.file(body))
}

// parse reads a file, whoever wrote it.
func (v *Vault) parse(kind, slug, file string, at time.Time) tables.WikiPage {
	f, body, _ := cut(file)
	p := tables.WikiPage{Kind: kind, Slug: slug, Title: f.text("title"), Tags: f.list("tags"), Entity: f.text("entity"),
		Shared: f.text("shared") == "true", Body: body, File: file, Links: links(body), Updated: at, Signature: Unsigned}
	if p.Title == "" {
		p.Title = slug
		for line := range strings.Lines(body) {
			if h, ok := strings.CutPrefix(line, "# "); ok {
				p.Title = strings.TrimSpace(h)
				break
			}
		}
	}
	if s := f.text("signature"); s != "" {
		p.Signature = Forged
		raw, ok := strings.CutPrefix(s, "ed25519:")
		sig, err := base64.StdEncoding.DecodeString(raw)
		if ok && err == nil && ed25519.Verify(v.key.Public().(ed25519.PublicKey), signedText(kind, slug, f, body), sig) {
			p.Signature = Signed
		}
	}
	return p
}

var wikilink = regexp.MustCompile(`\[\[([^\[\]|#\n]+)(?:[#|][^\[\]\n]*)?\]\]`)

// links are the targets of [[target]], [[target#heading]] and [[target|text]].
func links(body string) []string {
	var out []string
	for _, m := range wikilink.FindAllStringSubmatch(body, -1) {
		if t := strings.TrimSpace(m[1]); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func brackets(tags []string) string {
	var parts []string
	for _, t := range tags {
		if t = strings.TrimSpace(strings.ReplaceAll(t, ",", " ")); t != "" {
			parts = append(parts, quote(t))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func quoteIfAny(s string) string {
	if s == "" {
		return ""
	}
	return quote(s)
}
