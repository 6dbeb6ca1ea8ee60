package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sophia/mcp/registry"
	"sophia/messages"
	"sophia/store"
	"sophia/store/tables"
)

// sectionRows is how many rows a section shows: orient is read by a model.
const sectionRows = 5

// How many journal entries, and bytes of them, the sections on changes look at:
// orient costs the same however long the journal is, and whatever was written.
const (
	lookBack      = 200
	lookBackBytes = 256 << 10
)

// snapshot is one orient call's view. The first error is kept.
type snapshot struct {
	o   *orienter
	c   *registry.Call
	r   *store.Reader
	err error

	journal []*store.RecentEntry // the last visible entries, newest first
	looked  bool
	counted *Facts
}

func (s *snapshot) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// few lists a section's rows, and whether there are more, without counting them.
func few[R, T any](s *snapshot, t *store.Table[R], q store.Query[R], to func(R) T) *Brief[T] {
	q.Limit = sectionRows + 1
	rows, err := t.Top(s.r, q)
	s.note(err)
	out := &Brief[T]{More: len(rows) > sectionRows}
	for _, r := range rows[:min(len(rows), sectionRows)] {
		out.Items = append(out.Items, to(r))
	}
	return out
}

// newest are the rows at the high end of an index.
func newest[R, T any](s *snapshot, t *store.Table[R], index string, to func(R) T) *Brief[T] {
	return few(s, t, store.Query[R]{Index: index, Reverse: true}, to)
}

func openNotes(s *snapshot, t *store.Table[tables.Note]) *Brief[noteRow] {
	return few(s, t, store.Query[tables.Note]{Index: "status", Prefix: store.Tuple{tables.NoteOpen}}, func(n tables.Note) noteRow {
		return noteRow{n.ID, n.Entity, n.Text, n.By, n.Created}
	})
}

// fillState fills the sections on what is known.
func (s *snapshot) fillState(want func(string) bool, out *Orientation) {
	if want("goal_stack") {
		out.GoalStack = openNotes(s, tables.Goals)
	}
	if want("interrupts") {
		out.Interrupts = openNotes(s, tables.Interrupts)
	}
	if want("open_questions") {
		out.OpenQuestions = openNotes(s, tables.Questions)
	}
	if want("sync_status") {
		f := s.facts()
		out.SyncStatus = &syncStatus{Documents: f.Documents, Facts: f.Facts, WikiPages: f.Pages, Modules: f.Modules, Symbols: f.Symbols}
		last, ok, err := tables.Documents.First(s.r, store.Query[tables.Document]{Index: "imported", Reverse: true})
		if s.note(err); ok {
			out.SyncStatus.LastImport = &last.Imported
		}
	}
	if want("recent_documents") {
		out.RecentDocuments = newest(s, tables.Documents, "imported", func(d tables.Document) document {
			return document{d.ID, d.Title, d.Path, d.Tier, d.Imported}
		})
	}
	if want("document_tiers") {
		out.DocumentTiers = s.tiers()
	}
	if want("wiki_recent") {
		out.WikiRecent = newest(s, tables.WikiPages, "updated", func(p tables.WikiPage) page {
			return page{tables.PageKey(p.Kind, p.Slug), p.Title, p.Signature, p.Updated}
		})
	}
	if want("code_overview") {
		out.CodeOverview = s.code()
	}
	if want("knowledge_gaps") {
		out.KnowledgeGaps = s.gaps()
	}
	if want("upcoming_events") {
		out.UpcomingEvents = brief[dated](nil, false)
	}
	if want("deadlines") {
		out.Deadlines = brief[dated](nil, false)
	}
	if want("finance_snapshot") {
		out.FinanceSnapshot = brief[balance](nil, false)
	}
	if want("skills") {
		out.Skills = brief[named](nil, false)
	}
	if want("briefings") {
		out.Briefings = brief[named](nil, false)
	}
}

// fillActivity fills the sections on what happened and what waits.
func (s *snapshot) fillActivity(ctx context.Context, want func(string) bool, out *Orientation) {
	if want("inbox_summary") {
		out.InboxSummary = s.inbox()
	}
	if want("active_agents") {
		out.ActiveAgents = brief[agent](nil, false)
		if s.o.presence != nil {
			for _, a := range s.o.presence.Active(ctx) {
				if out.ActiveAgents.More = len(out.ActiveAgents.Items) == 4*sectionRows; out.ActiveAgents.More {
					break
				}
				out.ActiveAgents.Items = append(out.ActiveAgents.Items, agent{a.Connection, a.Name, a.Last})
			}
		}
	}
	if want("pending_approvals") {
		out.PendingApprovals = s.pending()
	}
	if want("recent_mutations") {
		out.RecentMutations = s.mutations(func(*store.RecentEntry) bool { return true })
	}
	if want("recent_reverts") {
		out.RecentReverts = s.mutations(func(e *store.RecentEntry) bool { return e.Reverts != 0 })
	}
	if want("recent_corrections") {
		out.RecentCorrections = s.corrections()
	}
	if want("hot_entities") {
		out.HotEntities = s.hot()
	}
}

func (s *snapshot) inbox() *inboxSummary {
	v, err := readInbox(s.o.box, s.c, inboxIn{SummaryOnly: true})
	s.note(err)
	return &inboxSummary{Unread: v.Total, Groups: v.Groups}
}

// pending are this connection's own questions to the owner.
func (s *snapshot) pending() *Brief[pending] {
	owner := s.o.db.View(store.Owner())
	defer owner.Close()
	rows, err := tables.Approvals.List(owner, store.Query[messages.ApprovalRow]{Index: "open", Limit: sectionRows,
		Where: func(r *messages.ApprovalRow) bool { return r.Connection == s.c.Authority.Connection }})
	s.note(err)
	out := &Brief[pending]{More: rows.Total > len(rows.Items)}
	for _, r := range rows.Items {
		out.Items = append(out.Items, pending{r.ID, r.Title, r.Tool, r.Requested, r.Expires})
	}
	return out
}

// entries are the visible ones among the last of the journal.
func (s *snapshot) entries() []*store.RecentEntry {
	if !s.looked {
		s.looked = true
		var err error
		s.journal, err = s.r.Recent(lookBack, lookBackBytes)
		s.note(err)
	}
	return s.journal
}

func (s *snapshot) mutations(which func(*store.RecentEntry) bool) *Brief[mutation] {
	out := &Brief[mutation]{}
	for _, e := range s.entries() {
		if e.Table == tables.ReadMarks.Name() || !which(e) {
			continue
		}
		if len(out.Items) == sectionRows {
			out.More = true
			break
		}
		kind := "update"
		switch {
		case null(e.Before):
			kind = "insert"
		case null(e.After):
			kind = "delete"
		}
		out.Items = append(out.Items, mutation{s.o.db.ID(e.Seq), e.Table, e.Key, kind, e.Actor.Name, e.At})
	}
	return out
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func (s *snapshot) corrections() *Brief[correction] {
	out := &Brief[correction]{}
	for _, e := range s.entries() {
		if e.Table != tables.Facts.Name() || null(e.Before) || null(e.After) {
			continue
		}
		var before, after tables.Fact
		if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || before.Status == after.Status {
			continue
		}
		if len(out.Items) == sectionRows {
			out.More = true
			break
		}
		out.Items = append(out.Items, correction{after.ID, after.Entity, before.Predicate + " " + before.Object, after.Status, e.Actor.Name, e.At})
	}
	return out
}

// hot are the entities that most of the last changes were about.
func (s *snapshot) hot() *Brief[hotEntity] {
	var all []hotEntity
	for _, e := range s.entries() {
		if e.Entity == "" {
			continue
		}
		i := slices.IndexFunc(all, func(h hotEntity) bool { return h.Entity == e.Entity })
		if i < 0 {
			all = append(all, hotEntity{e.Entity, 1, e.At})
		} else {
			all[i].Changes++
		}
	}
	slices.SortStableFunc(all, func(a, b hotEntity) int { return cmp.Compare(b.Changes, a.Changes) })
	return brief(all[:min(len(all), sectionRows)], len(all) > sectionRows)
}

func (s *snapshot) gaps() *Brief[gap] {
	rejected := newest(s, tables.Rejections, "at", func(r tables.Rejection) gap {
		return gap{"ungrounded_quote", r.Quote, r.Document, r.At}
	})
	asked := few(s, tables.Questions, store.Query[tables.Note]{Index: "status", Prefix: store.Tuple{tables.NoteOpen}}, func(n tables.Note) gap {
		return gap{"open_question", n.Text, n.ID, n.Created}
	})
	return brief(append(asked.Items, rejected.Items...), rejected.More || asked.More)
}

func (s *snapshot) tiers() *documentTiers {
	by := tally(s, tables.Documents, "tier")
	indexed := by[tables.TierIndexed]
	searchable := by[tables.TierSearchable] + indexed // each tier includes those before
	scanned := by[tables.TierScanned] + searchable
	return &documentTiers{Scanned: scanned, Searchable: searchable, Indexed: indexed, Chip: fmt.Sprintf("%ds · %df · %di", scanned, searchable, indexed)}
}

func (s *snapshot) code() *codeOverview {
	f := s.facts()
	out := &codeOverview{Modules: f.Modules, Symbols: f.Symbols}
	by := tally(s, tables.Modules, "language")
	for _, language := range slices.Sorted(maps.Keys(by)) {
		out.ByLanguage = append(out.ByLanguage, namedNumber{language, by[language]})
	}
	return out
}

// Facts are what the recommendations depend on. Interrupts are the open ones.
type Facts struct{ Documents, Facts, Pages, Modules, Symbols, Unread, Interrupts int }

// facts counts once for all sections. The store keeps the counts.
func (s *snapshot) facts() Facts {
	if s.counted == nil {
		n, err := s.o.box.Unread(context.Background(), s.c.Authority)
		s.note(err)
		s.counted = &Facts{
			Documents: count(s, tables.Documents), Facts: count(s, tables.Facts), Pages: count(s, tables.WikiPages),
			Modules: count(s, tables.Modules), Symbols: count(s, tables.Symbols), Unread: n,
			Interrupts: tally(s, tables.Interrupts, "status")[tables.NoteOpen],
		}
	}
	return *s.counted
}

func count[R any](s *snapshot, t *store.Table[R]) int {
	n, err := t.Count(s.r)
	s.note(err)
	return n
}

func tally[R any](s *snapshot, t *store.Table[R], name string) map[string]int {
	by, err := t.Tally(s.r, name)
	s.note(err)
	return by
}
