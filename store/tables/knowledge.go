package tables

import (
	"time"

	"sophia/store"
)

// States of a fact.
const (
	FactActive     = "active"
	FactSuperseded = "superseded"
	FactRetracted  = "retracted"
)

// Trust tiers of a fact.
const (
	TrustAsserted = "asserted" // an agent said so
	TrustGrounded = "grounded" // a verbatim quote of a source carries it
	TrustOwner    = "owner"    // the owner said so
)

// Fact is a dated observation, entity / predicate / object, by fact-….
type Fact struct {
	ID         string     `json:"id"`
	Entity     string     `json:"entity"`
	Predicate  string     `json:"predicate"`
	Object     string     `json:"object"`
	ValidFrom  *time.Time `json:"valid_from,omitempty"`
	ValidTo    *time.Time `json:"valid_to,omitempty"` // exclusive
	Recorded   time.Time  `json:"recorded"`
	Quote      string     `json:"quote,omitempty"`  // verbatim, at most 300 characters
	Source     string     `json:"source,omitempty"` // doc-…
	Offset     *int       `json:"offset,omitempty"` // of the quote, bytes in the source's text
	Trust      string     `json:"trust"`
	Observer   string     `json:"observer"` // the display name, as it was then
	Status     string     `json:"status"`
	Supersedes string     `json:"supersedes,omitempty"` // fact-…
}

// Facts are the knowledge.
var Facts = store.Define(store.Spec[Fact]{
	ID: 20, Name: "facts", Noun: "fact",
	Key:     func(r *Fact) string { return r.ID },
	Visible: func(r *Fact) store.Visibility { return store.Of(r.Entity) },
	Text:    func(r *Fact) string { return r.Entity + " " + r.Predicate + " " + r.Object + "\n" + r.Quote },
	Indexes: []store.Index[Fact]{
		store.One("entity", func(r *Fact) store.Tuple { return store.Tuple{r.Entity, r.Predicate, r.Recorded} }),
		store.One("predicate", func(r *Fact) store.Tuple { return store.Tuple{r.Predicate, r.Entity, r.Recorded} }),
		store.One("recorded", func(r *Fact) store.Tuple { return store.Tuple{r.Recorded} }),
	},
})

// Observation is a free-text note about an entity, by obs-….
type Observation struct {
	ID       string    `json:"id"`
	Entity   string    `json:"entity,omitempty"`
	Text     string    `json:"text"`
	Source   string    `json:"source,omitempty"` // doc-…, a URL, or what it is from
	Observer string    `json:"observer"`
	Recorded time.Time `json:"recorded"`
}

// Observations are what agents noticed.
var Observations = store.Define(store.Spec[Observation]{
	ID: 21, Name: "observations", Noun: "observation",
	Key:     func(r *Observation) string { return r.ID },
	Visible: func(r *Observation) store.Visibility { return store.Of(r.Entity) },
	Text:    func(r *Observation) string { return r.Entity + " " + r.Text },
	Indexes: []store.Index[Observation]{
		store.One("entity", func(r *Observation) store.Tuple { return store.Tuple{r.Entity, r.Recorded} }),
		store.One("recorded", func(r *Observation) store.Tuple { return store.Tuple{r.Recorded} }),
	},
})

// Note is a row of the small lists that orient shows.
type Note struct {
	ID      string     `json:"id"`
	Entity  string     `json:"entity,omitempty"`
	Text    string     `json:"text"`
	Status  string     `json:"status"` // open, done
	Rank    int        `json:"rank,omitempty"`
	By      string     `json:"by"`
	Created time.Time  `json:"created"`
	Closed  *time.Time `json:"closed,omitempty"`
}

// Statuses of a note.
const (
	NoteOpen = "open"
	NoteDone = "done"
)

func notes(id uint16, name, noun string) *store.Table[Note] {
	return store.Define(store.Spec[Note]{
		ID: id, Name: name, Noun: noun,
		Key:     func(r *Note) string { return r.ID },
		Visible: func(r *Note) store.Visibility { return store.Of(r.Entity) },
		Text:    func(r *Note) string { return r.Entity + " " + r.Text },
		Indexes: []store.Index[Note]{
			store.Split(store.One("status", func(r *Note) store.Tuple { return store.Tuple{r.Status, r.Rank, r.Created} })),
		},
		Tallies: []store.Tally[Note]{{Name: "status", Value: func(r *Note) string { return r.Status }}},
	})
}

// Goals, open questions and interrupts, by goal-…, question-…, interrupt-….
var (
	Goals      = notes(22, "goals", "goal")
	Questions  = notes(23, "open_questions", "open question")
	Interrupts = notes(24, "interrupts", "interrupt")
)
