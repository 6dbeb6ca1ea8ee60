package importdoc

import (
	"bytes"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding/unicode"
)

// maxText is the largest text that is made searchable: its passages and
// postings must fit one commit.
const maxText = 1 << 20

// types of files by their extension, where the system's table is silent or
// differs from host to host.
var types = map[string]string{
	".md": "text/markdown", ".markdown": "text/markdown", ".txt": "text/plain", ".html": "text/html", ".htm": "text/html",
	".go": "text/x-go", ".mod": "text/x-go-mod", ".ts": "text/x-typescript", ".tsx": "text/x-typescript", ".js": "text/javascript",
	".mjs": "text/javascript", ".jsx": "text/javascript", ".py": "text/x-python", ".rs": "text/x-rust", ".java": "text/x-java",
	".cs": "text/x-csharp", ".c": "text/x-c", ".h": "text/x-c", ".cc": "text/x-c++", ".cpp": "text/x-c++", ".sh": "text/x-sh",
	".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml", ".toml": "application/toml",
	".sql": "application/sql", ".css": "text/css", ".csv": "text/csv", ".xml": "application/xml", ".proto": "text/x-protobuf",
}

// mimeOf names a file's type without parameters.
func mimeOf(name string, content []byte) string {
	ext := strings.ToLower(path.Ext(name))
	if t := types[ext]; t != "" {
		return t
	}
	if t, _, err := mime.ParseMediaType(mime.TypeByExtension(ext)); err == nil && t != "" {
		return t
	}
	t, _, _ := strings.Cut(http.DetectContentType(content), ";")
	return t
}

// Extract takes the text out of a file. why says what stands in the way; the
// text is "" then.
func Extract(name string, content []byte) (text, title, mimeType, why string) {
	mimeType = mimeOf(name, content)
	title = path.Base(name)
	decoded, ok := decodeText(content)
	switch {
	case !ok:
		return "", title, mimeType, "not_text"
	case len(decoded) > maxText:
		return "", title, mimeType, "too_large"
	}
	switch mimeType {
	case "text/html":
		text, heading := htmlText(decoded)
		if heading != "" {
			title = heading
		}
		if len(text) > maxText {
			return "", title, mimeType, "too_large"
		}
		return text, title, mimeType, empty(text)
	case "text/markdown":
		if h := firstHeading(decoded); h != "" {
			title = h
		}
	}
	return decoded, title, mimeType, empty(decoded)
}

func empty(text string) string {
	if strings.TrimSpace(text) == "" {
		return "empty"
	}
	return ""
}

// decodeText takes UTF-8, and UTF-16 with a byte order mark. The mark is left out.
func decodeText(b []byte) (string, bool) {
	switch {
	case bytes.HasPrefix(b, []byte{0xFF, 0xFE}) || bytes.HasPrefix(b, []byte{0xFE, 0xFF}):
		out, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(b)
		return string(out), err == nil && utf8.Valid(out)
	case bytes.HasPrefix(b, []byte{0xEF, 0xBB, 0xBF}):
		b = b[3:]
	}
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// firstHeading is the first level-one heading outside of code.
func firstHeading(text string) string {
	fence := ""
	for line := range strings.Lines(text) {
		if fence = fenced(fence, line); fence != "" {
			continue
		}
		if level, h := heading(line); level == 1 {
			return h
		}
	}
	return ""
}

// fenced follows code fences: it returns the fence that is open after the line.
func fenced(open, line string) string {
	t := strings.TrimLeft(line, " ")
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(t, mark) {
			if open == "" {
				return mark
			}
			if open == mark {
				return ""
			}
		}
	}
	return open
}

// heading reads an ATX heading. level 0 is none.
func heading(line string) (level int, text string) {
	t := strings.TrimRight(line, "\r\n")
	for level < len(t) && t[level] == '#' {
		level++
	}
	if level == 0 || level > 6 || level < len(t) && t[level] != ' ' && t[level] != '\t' {
		return 0, ""
	}
	return level, strings.TrimSpace(strings.TrimRight(strings.TrimSpace(t[level:]), "#"))
}

// blocks are elements whose text stands on lines of its own.
var blocks = map[string]bool{"p": true, "div": true, "br": true, "li": true, "tr": true, "h1": true, "h2": true, "h3": true, "h4": true,
	"h5": true, "h6": true, "section": true, "article": true, "pre": true, "blockquote": true, "table": true, "ul": true, "ol": true,
	"header": true, "footer": true, "main": true, "nav": true, "dt": true, "dd": true, "title": true}

// htmlText is what a reader sees of a page, and its title.
func htmlText(src string) (text, title string) {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(src))
	skip, inTitle := "", false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(b.String()), strings.Join(strings.Fields(title), " ")
		case html.TextToken:
			if skip != "" {
				continue
			}
			t := string(z.Text())
			if inTitle {
				title += t
			}
			words := strings.Join(strings.Fields(t), " ")
			if words == "" {
				continue
			}
			if n := b.Len(); n > 0 && b.String()[n-1] != '\n' && strings.TrimLeft(t, " \t\r\n") != t {
				b.WriteByte(' ')
			}
			b.WriteString(words)
			if strings.TrimRight(t, " \t\r\n") != t {
				b.WriteByte(' ')
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := string(name)
			switch tag {
			case "script", "style", "noscript", "template":
				if skip == "" {
					skip = tag
				}
			case "title":
				inTitle = true
			}
			newline(&b, tag)
		case html.EndTagToken:
			name, _ := z.TagName()
			tag := string(name)
			if tag == skip {
				skip = ""
			}
			if tag == "title" {
				inTitle = false
			}
			newline(&b, tag)
		}
	}
}

func newline(b *strings.Builder, tag string) {
	if n := b.Len(); blocks[tag] && n > 0 && b.String()[n-1] != '\n' {
		b.WriteByte('\n')
	}
}
