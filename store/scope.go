package store

import (
	"slices"
	"strings"
)

// Scope is which rows exist for a caller. The zero Scope sees nothing.
type Scope struct {
	owner bool
	all   bool
	ids   map[string]bool
}

// ScopeOf makes a scope from a connection's list of entities: empty is
// nothing, "*" is all.
func ScopeOf(entities []string) Scope {
	if slices.Contains(entities, "*") {
		return Scope{all: true}
	}
	s := Scope{ids: make(map[string]bool, len(entities))}
	for _, e := range entities {
		s.ids[e] = true
	}
	return s
}

// Owner sees every table, also those that no connection sees (connections,
// approvals, leases). It is for the daemon's own work on the owner's behalf.
func Owner() Scope { return Scope{owner: true, all: true} }

// All says whether the scope has every entity.
func (s Scope) All() bool { return s.all }

// Has says whether the scope has an entity.
func (s Scope) Has(entity string) bool { return s.all || s.ids[entity] }

// Nothing says whether the scope sees no entity at all.
func (s Scope) Nothing() bool { return !s.all && len(s.ids) == 0 }

// Visibility says for whom a row exists.
type Visibility struct {
	// Entities that the row is about: a caller must have all of them. A row
	// without any is visible to "*" alone.
	Entities []string
	// Shared rows are visible to every connection of the owner.
	Shared bool
}

// Of is the visibility of a row about one entity; "" is none.
func Of(entity string) Visibility {
	if entity == "" {
		return Visibility{}
	}
	return Visibility{Entities: []string{entity}}
}

// Partitions of rows, as they are written into index values and posting keys:
// all rows of a partition are visible to the same callers.
const (
	partitionOwner  = "!" // tables that no connection sees
	partitionShared = "*"
	partitionNone   = ""
	partitionEntity = "=" // "=acme", or "=acme\x1fbeta": needs both
)

const partitionSep = "\x1f"

func (v Visibility) partition() string {
	switch {
	case v.Shared:
		return partitionShared
	case len(v.Entities) == 0:
		return partitionNone
	}
	ids := slices.Clone(v.Entities)
	slices.Sort(ids)
	return partitionEntity + strings.Join(slices.Compact(ids), partitionSep)
}

// sees is the one rule that every read and write is filtered by.
func (s Scope) sees(partition string) bool {
	switch {
	case partition == partitionOwner:
		return s.owner
	case s.all:
		return true
	case partition == partitionShared:
		return true
	case strings.HasPrefix(partition, partitionEntity):
		for e := range strings.SplitSeq(partition[1:], partitionSep) {
			if !s.ids[e] {
				return false
			}
		}
		return true
	}
	return false
}
