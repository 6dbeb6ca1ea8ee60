package registry

import "strings"

// Prefix is the namespace of every tool (spec mcp-surface).
const Prefix = "sophia."

// Camel is the SDK method's name: query_knowledge → queryKnowledge.
func Camel(name string) string {
	var b strings.Builder
	up := false
	for _, r := range name {
		switch {
		case r == '_':
			up = true
		case up && r >= 'a' && r <= 'z':
			b.WriteRune(r - 'a' + 'A')
			up = false
		default:
			b.WriteRune(r)
			up = false
		}
	}
	return b.String()
}

// Underscored is the spelling for clients that refuse dots: sophia_query_knowledge.
func Underscored(canonical string) string {
	return strings.Replace(canonical, ".", "_", 1)
}

// bare takes the prefix off in either spelling. A name without one is left as it is.
func bare(name string) string {
	for _, p := range []string{Prefix, "sophia_"} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			return rest
		}
	}
	return name
}
