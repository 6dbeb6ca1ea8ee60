package tables

import "sophia/store"

// Module is one unit of code that can be imported: for Go a package.
type Module struct {
	ID        string   `json:"id"` // ws-…:import/path
	Workspace string   `json:"workspace"`
	Name      string   `json:"name"` // import path
	Language  string   `json:"language"`
	Kind      string   `json:"kind"`  // library, program, test
	Files     []string `json:"files"` // relative to the workspace
	Lines     int      `json:"lines"`
	Imports   []string `json:"imports"`
	Exports   []string `json:"exports"`
	Doc       string   `json:"doc,omitempty"` // first sentence
	Entity    string   `json:"entity,omitempty"`
}

// Modules are made of the files of a workspace.
var Modules = store.Define(store.Spec[Module]{
	ID: 50, Name: "code_modules", Noun: "module", Derived: true,
	Key:     func(r *Module) string { return r.ID },
	Visible: func(r *Module) store.Visibility { return store.Of(r.Entity) },
	Text:    func(r *Module) string { return r.Name + "\n" + r.Doc },
	Indexes: []store.Index[Module]{
		store.One("workspace", func(r *Module) store.Tuple { return store.Tuple{r.Workspace, r.Name} }),
	},
	Tallies: []store.Tally[Module]{{Name: "language", Value: func(r *Module) string { return r.Language }}},
})

// Symbol is a declaration.
type Symbol struct {
	ID        string `json:"id"` // module ID + "." + qualified name
	Workspace string `json:"workspace"`
	Module    string `json:"module"` // its ID
	Name      string `json:"name"`   // Open, (*DB).Write
	Kind      string `json:"kind"`   // func, method, type, const, var
	Exported  bool   `json:"exported"`
	File      string `json:"file"`
	Start     int    `json:"start"` // lines, 1-based, inclusive
	End       int    `json:"end"`
	Signature string `json:"signature"`
	Doc       string `json:"doc,omitempty"` // first sentence
	Hash      string `json:"hash"`          // of its source; changes when it does
	Entity    string `json:"entity,omitempty"`
}

// Symbols are made of the files of a workspace.
var Symbols = store.Define(store.Spec[Symbol]{
	ID: 51, Name: "code_symbols", Noun: "symbol", Derived: true,
	Key:     func(r *Symbol) string { return r.ID },
	Visible: func(r *Symbol) store.Visibility { return store.Of(r.Entity) },
	Text: func(r *Symbol) string {
		return r.Name + " " + r.Kind + " " + r.Signature + "\n" + r.Doc + "\n" + r.File
	},
	Indexes: []store.Index[Symbol]{
		store.One("name", func(r *Symbol) store.Tuple { return store.Tuple{Bare(r.Name), r.ID} }),
		store.One("module", func(r *Symbol) store.Tuple { return store.Tuple{r.Module, r.Start} }),
		store.One("file", func(r *Symbol) store.Tuple { return store.Tuple{r.Workspace, r.File, r.Start} }),
	},
})

// Bare is a symbol's name without its receiver: Write of (*DB).Write.
func Bare(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}

// Call is a call of one symbol by another, found by name.
type Call struct {
	ID        string `json:"id"`
	Workspace string `json:"workspace"`
	Caller    string `json:"caller"` // symbol ID
	Callee    string `json:"callee"` // symbol ID, or "" when it is not in the workspace
	Name      string `json:"name"`   // as written: fmt.Println, db.Write
	File      string `json:"file"`
	Line      int    `json:"line"`
	Exact     bool   `json:"exact"` // resolved by package, not by the name alone
	Entity    string `json:"entity,omitempty"`
}

// Calls are made of the files of a workspace.
var Calls = store.Define(store.Spec[Call]{
	ID: 52, Name: "code_calls", Noun: "call", Derived: true,
	Key:     func(r *Call) string { return r.ID },
	Visible: func(r *Call) store.Visibility { return store.Of(r.Entity) },
	Indexes: []store.Index[Call]{
		store.One("caller", func(r *Call) store.Tuple { return store.Tuple{r.Caller, r.Line} }),
		store.One("callee", func(r *Call) store.Tuple { return store.Tuple{r.Callee, r.Caller, r.Line} }),
		store.One("workspace", func(r *Call) store.Tuple { return store.Tuple{r.Workspace} }),
	},
})
