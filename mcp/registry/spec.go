package registry

// Group is a capability group of the catalog.
type Group string

// The capability groups (spec mcp-surface, How it works).
const (
	Orient          Group = "orient"
	Coordination    Group = "coordination"
	System          Group = "system"
	ReadEntities    Group = "read_entities"
	ReadFinance     Group = "read_finance"
	ReadCalendar    Group = "read_calendar"
	ReadDocuments   Group = "read_documents"
	ReadKnowledge   Group = "read_knowledge"
	ReadWiki        Group = "read_wiki"
	ReadCode        Group = "read_code"
	ReadMeta        Group = "read_meta"
	Preflight       Group = "preflight"
	MutateEntities  Group = "mutate_entities"
	MutateFinance   Group = "mutate_finance"
	MutateCalendar  Group = "mutate_calendar"
	MutateDocuments Group = "mutate_documents"
	MutateKnowledge Group = "mutate_knowledge"
	MutateWiki      Group = "mutate_wiki"
	MutateCode      Group = "mutate_code"
)

// Groups are all groups in the catalog's order.
func Groups() []Group {
	return []Group{Orient, Coordination, System, ReadEntities, ReadFinance, ReadCalendar, ReadDocuments, ReadKnowledge,
		ReadWiki, ReadCode, ReadMeta, Preflight, MutateEntities, MutateFinance, MutateCalendar, MutateDocuments,
		MutateKnowledge, MutateWiki, MutateCode}
}

// Effects say what a call reads and changes. They decide who may call it and
// whether the owner is asked.
type Effects struct {
	Reads    []string // tables
	Writes   []string // the owner's tables: not for observers, gated for assistants
	Traffic  []string // the agents' own tables (posts, read marks, claims): open to every profile, never gated
	Elevated bool     // always gated, whatever the profile; needs Writes
	Composes bool     // the effects are those of the calls that it makes (execute_code)
}

// Scope says what a connection's entity scope means for a tool.
type Scope int

const (
	// Scoped tools read or write rows of entities. The store filters them;
	// a connection with an empty scope can't call them.
	Scoped Scope = iota
	// Unscoped tools touch no entity's rows: the surface itself, channels.
	Unscoped
	// AllEntities tools need the scope "*".
	AllEntities
)

// Spec is the declaration of a tool, but for its types and its handler.
type Spec struct {
	Name        string // without the prefix: query_knowledge
	Group       Group
	Title       string // for people; derived from the name when empty
	Summary     string // one line, for the catalog; no full stop needed
	Description string // for the model: what it is for, when to use it. The summary is not repeated.
	Effects     Effects
	Scope       Scope
	Destructive bool     // annotation: may overwrite or remove; only where it writes
	Idempotent  bool     // annotation: the same call twice changes nothing more (reads always are)
	OpenWorld   bool     // annotation: reaches beyond Sophia
	Compact     []string // about five keys of a row for compact: true; required for list-returning reads
	Core        bool     // on the core surface
	Code        bool     // listed on the code surface
	DirectOnly  bool     // not callable inside the isolate
}
