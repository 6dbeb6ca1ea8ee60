package tools

import (
	"context"
	"slices"
	"strings"
	"time"

	"sophia/actors/connections"
	"sophia/mcp/inbox"
	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/store"
)

// Presence knows who is about: *connections.Connections.
type Presence interface {
	Active(ctx context.Context) []connections.Seen
}

type orientIn struct {
	Goal     string   `json:"goal,omitempty" jsonschema:"what you are here for; ranks what is recommended" max:"500"`
	Sections []string `json:"sections,omitempty" jsonschema:"only these; leave out for all" enum:"identity,sync_status,goal_stack,hot_entities,interrupts,open_questions,recommended_actions,recent_corrections,inbox_summary,active_agents,pending_approvals,recent_mutations,recent_reverts,upcoming_events,deadlines,finance_snapshot,recent_documents,document_tiers,wiki_recent,code_overview,knowledge_gaps,skills,briefings,next_likely_calls,capability_summary"`
}

// Brief is a section: the few rows that matter now. More says that there are
// others.
type Brief[T any] struct {
	Items []T  `json:"items"`
	More  bool `json:"more"`
}

func brief[T any](items []T, more bool) *Brief[T] { return &Brief[T]{items, more} }

// Orientation has a key per section. A section that was not asked for is
// absent; one that nothing is known of is empty.
type Orientation struct {
	Goal               string             `json:"goal,omitempty"`
	Identity           *identity          `json:"identity,omitempty"`
	SyncStatus         *syncStatus        `json:"sync_status,omitempty"`
	GoalStack          *Brief[noteRow]    `json:"goal_stack,omitempty"`
	HotEntities        *Brief[hotEntity]  `json:"hot_entities,omitempty"`
	Interrupts         *Brief[noteRow]    `json:"interrupts,omitempty"`
	OpenQuestions      *Brief[noteRow]    `json:"open_questions,omitempty"`
	RecommendedActions *Brief[Action]     `json:"recommended_actions,omitempty"`
	RecentCorrections  *Brief[correction] `json:"recent_corrections,omitempty"`
	InboxSummary       *inboxSummary      `json:"inbox_summary,omitempty"`
	ActiveAgents       *Brief[agent]      `json:"active_agents,omitempty"`
	PendingApprovals   *Brief[pending]    `json:"pending_approvals,omitempty"`
	RecentMutations    *Brief[mutation]   `json:"recent_mutations,omitempty"`
	RecentReverts      *Brief[mutation]   `json:"recent_reverts,omitempty"`
	UpcomingEvents     *Brief[dated]      `json:"upcoming_events,omitempty"`
	Deadlines          *Brief[dated]      `json:"deadlines,omitempty"`
	FinanceSnapshot    *Brief[balance]    `json:"finance_snapshot,omitempty"`
	RecentDocuments    *Brief[document]   `json:"recent_documents,omitempty"`
	DocumentTiers      *documentTiers     `json:"document_tiers,omitempty"`
	WikiRecent         *Brief[page]       `json:"wiki_recent,omitempty"`
	CodeOverview       *codeOverview      `json:"code_overview,omitempty"`
	KnowledgeGaps      *Brief[gap]        `json:"knowledge_gaps,omitempty"`
	Skills             *Brief[named]      `json:"skills,omitempty"`
	Briefings          *Brief[named]      `json:"briefings,omitempty"`
	NextLikelyCalls    *Brief[Action]     `json:"next_likely_calls,omitempty"`
	CapabilitySummary  *capabilities      `json:"capability_summary,omitempty"`
}

type identity struct {
	Connection string   `json:"connection"`
	Name       string   `json:"name"`
	Profile    string   `json:"profile" enum:"observer,assistant,full,portal"`
	Surface    string   `json:"surface" enum:"core,full,code"`
	Scope      []string `json:"scope" jsonschema:"entities whose rows exist for you; * is all"`
	ToolNames  string   `json:"tool_names,omitempty"`
	Lease      string   `json:"lease,omitempty" jsonschema:"of a managed launch"`
	Launch     string   `json:"launch,omitempty"`
	Writes     string   `json:"writes" enum:"never,each call asks the owner,yes; elevated tools ask the owner,yes" jsonschema:"whether you may write"`
}

type syncStatus struct {
	Documents  int        `json:"documents"`
	Facts      int        `json:"facts"`
	WikiPages  int        `json:"wiki_pages"`
	Modules    int        `json:"code_modules"`
	Symbols    int        `json:"code_symbols"`
	LastImport *time.Time `json:"last_import" jsonschema:"when a document last came in; null: none has"`
}

type noteRow struct {
	ID      string    `json:"id"`
	Entity  string    `json:"entity,omitempty"`
	Text    string    `json:"text"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
}

type hotEntity struct {
	Entity  string    `json:"entity"`
	Changes int       `json:"changes" jsonschema:"among the last changes"`
	Last    time.Time `json:"last"`
}

type correction struct {
	Fact   string    `json:"fact"`
	Entity string    `json:"entity"`
	Was    string    `json:"was"`
	Status string    `json:"status"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

type inboxSummary struct {
	Unread int          `json:"unread"`
	Groups []inboxGroup `json:"groups"`
}

type agent struct {
	Connection string    `json:"connection"`
	Name       string    `json:"name"`
	LastSeen   time.Time `json:"last_seen"`
}

type pending struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Tool      string    `json:"tool,omitempty"`
	Requested time.Time `json:"requested"`
	Expires   time.Time `json:"expires"`
}

type mutation struct {
	ID    string    `json:"id"`
	Table string    `json:"table"`
	Key   string    `json:"key"`
	Kind  string    `json:"kind" enum:"insert,update,delete"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

type document struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Path     string    `json:"path"`
	Tier     string    `json:"tier"`
	Imported time.Time `json:"imported"`
}

type documentTiers struct {
	Scanned    int    `json:"scanned"`
	Searchable int    `json:"searchable"`
	Indexed    int    `json:"indexed"`
	Chip       string `json:"chip" jsonschema:"as shown to the owner, e.g. 276s · 276f · 0i"`
}

type page struct {
	Page      string    `json:"page" jsonschema:"kind/slug"`
	Title     string    `json:"title"`
	Signature string    `json:"signature"`
	Updated   time.Time `json:"updated"`
}

type codeOverview struct {
	Modules    int           `json:"modules"`
	Symbols    int           `json:"symbols"`
	ByLanguage []namedNumber `json:"by_language" jsonschema:"modules; adds up to modules"`
}

type namedNumber struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

type gap struct {
	Kind string    `json:"kind" enum:"ungrounded_quote,open_question"`
	Text string    `json:"text"`
	Ref  string    `json:"ref"`
	At   time.Time `json:"at"`
}

// Sections whose tables come with their domains; until there is a row they are
// empty lists of these shapes.
type (
	dated struct {
		ID    string    `json:"id"`
		Title string    `json:"title"`
		At    time.Time `json:"at"`
	}
	balance struct {
		Account  string `json:"account"`
		Currency string `json:"currency"`
		Minor    int64  `json:"minor" jsonschema:"in minor units"`
	}
	named struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
)

type capabilities struct {
	TotalTools int           `json:"total_tools"`
	Version    string        `json:"version"`
	Groups     []namedNumber `json:"groups"`
}

// Orient are the session's bootloaders.
func Orient(db *store.DB, box *inbox.Inbox, presence Presence) []registry.Tool {
	o := &orienter{db: db, box: box, presence: presence}
	return []registry.Tool{
		registry.Define(registry.Spec{
			Name: "orient", Group: registry.Orient, Scope: registry.Unscoped, Core: true, Code: true,
			Summary:     "Find out where you are and what to do next",
			Description: "Call it first. 25 sections on your identity, what is known, what changed and what waits; `goal` ranks the recommendations, `sections` selects. Recommends only what you can call.",
			Effects:     registry.Effects{Reads: []string{"documents", "facts", "wiki_pages", "code_modules", "posts", "goals", "interrupts", "open_questions", "approvals"}},
		}, o.orient),
		registry.Define(registry.Spec{
			Name: "whoami", Group: registry.Orient, Scope: registry.Unscoped, Core: true,
			Summary:     "Say who this connection is and what it may do",
			Description: "Profile, surface and entity scope of your connection, as the daemon sees them on this very call.",
		}, func(_ context.Context, c *registry.Call, _ struct{}) (identity, error) {
			return *identityOf(c.Authority), nil
		}),
	}
}

func identityOf(a messages.Authority) *identity {
	i := &identity{Connection: a.Connection, Name: a.Name, Profile: string(a.Profile), Surface: string(a.Surface), Scope: slices.Clone(a.Scope),
		ToolNames: a.ToolNames, Lease: a.Lease, Launch: a.Launch, Writes: "never"}
	switch {
	case a.Profile == messages.Assistant, a.Profile == messages.Full && a.WriteApproval == messages.WriteApprovalAlways:
		i.Writes = "each call asks the owner"
	case a.Profile == messages.Full:
		i.Writes = "yes; elevated tools ask the owner"
	case a.Profile == messages.Portal:
		i.Writes = "yes"
	}
	return i
}

type orienter struct {
	db       *store.DB
	box      *inbox.Inbox
	presence Presence
}

// orient fills the sections that are wanted, from one snapshot.
func (o *orienter) orient(ctx context.Context, c *registry.Call, in orientIn) (Orientation, error) {
	want := func(name string) bool { return len(in.Sections) == 0 || slices.Contains(in.Sections, name) }
	out := Orientation{Goal: strings.TrimSpace(in.Goal)}
	s := &snapshot{o: o, c: c, r: o.db.View(store.ScopeOf(c.Authority.Scope))}
	defer s.r.Close()
	s.fillState(want, &out)
	s.fillActivity(ctx, want, &out)
	if want("identity") {
		out.Identity = identityOf(c.Authority)
	}
	if want("recommended_actions") {
		out.RecommendedActions = brief(Recommend(c, out.Goal, s.facts()), false)
	}
	if want("next_likely_calls") {
		out.NextLikelyCalls = brief(likely(c, out.Goal), false)
	}
	if want("capability_summary") {
		out.CapabilitySummary = summary(c)
	}
	return out, s.err
}

func summary(c *registry.Call) *capabilities {
	all := reachable(c)
	out := &capabilities{TotalTools: len(all), Version: surfaceVersion(c)}
	for _, t := range all {
		n := len(out.Groups)
		if n == 0 || out.Groups[n-1].Name != string(t.Group) {
			out.Groups = append(out.Groups, namedNumber{string(t.Group), 0})
			n++
		}
		out.Groups[n-1].Count++
	}
	return out
}
