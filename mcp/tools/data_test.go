package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sophia/mcp/registry"
	"sophia/mcp/tools"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/store"
	"sophia/store/blobs"
	"sophia/store/importcode"
	"sophia/store/importdoc"
	"sophia/store/tables"
	"sophia/store/wiki"
	"sophia/testkit/storetest"
)

// dataWorld is a store with one imported workspace of the entity acme, and the
// data tools over it.
type dataWorld struct {
	*testing.T
	data  tools.Data
	tools *registry.Registry
	vault string
	calls int
	// meanwhile runs once, between the next call's preview and the call: while the
	// owner thinks.
	meanwhile func()
}

func newDataWorld(t *testing.T) *dataWorld {
	t.Helper()
	db, _ := storetest.InMemory(t)
	dir := t.TempDir()
	texts, err := blobs.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	importdoc.Attach(db, texts)
	v, err := wiki.Open(db, dir, filepath.Join(dir, "wiki.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	root := filepath.Join(dir, "checkout")
	for name, content := range map[string]string{
		"README.md": "# Leases\n\nA lease ends after 3600 seconds.\n\n## Renewal\n\nNobody renews a lease.\n",
		"go.mod":    "module example.com/app\n",
		"main.go":   "// Command app is small.\npackage main\n\nfunc main() { openLease() }\n\n// openLease opens one.\nfunc openLease() {}\n",
		"logo.png":  "\x89PNG\x00",
	} {
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	by := store.System("importer", "")
	if _, err := (importdoc.Importer{DB: db, Write: db, Texts: texts}).Import(context.Background(), by, importdoc.Folder{Workspace: "ws-1", Path: root, Entity: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, err := importcode.Import(context.Background(), db, db, by, importcode.Folder{Workspace: "ws-1", Path: root, Entity: "acme"}); err != nil {
		t.Fatal(err)
	}
	w := &dataWorld{T: t, data: tools.Data{DB: db, Write: db, Texts: texts, Wiki: v}, vault: filepath.Join(dir, "wiki")}
	if w.tools, err = registry.New(tools.DataTools(w.data)...); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *dataWorld) call(tool string, args string, scope ...string) (map[string]any, error) {
	w.Helper()
	for _, t := range w.tools.Tools() {
		if t.Name != tool {
			continue
		}
		w.calls++
		c := &registry.Call{ID: fmt.Sprintf("call-%d", w.calls), Tool: t.Canonical, Authority: messages.Authority{Connection: "conn-1", Name: "Reviewer", Profile: messages.Full, Scope: scope}}
		var err error
		if c.Approved, err = t.Preview(context.Background(), c, json.RawMessage(args)); err != nil {
			return nil, err
		}
		if w.meanwhile != nil {
			f := w.meanwhile
			w.meanwhile = nil
			f()
		}
		body, err := t.Run(context.Background(), c, json.RawMessage(args))
		if err != nil {
			return nil, err
		}
		var m map[string]any
		if err := json.Unmarshal(body, &m); err != nil {
			w.Fatal(err)
		}
		return m, nil
	}
	w.Fatalf("there is no tool %s", tool)
	return nil, nil
}

func (w *dataWorld) ok(tool, args string, scope ...string) map[string]any {
	w.Helper()
	m, err := w.call(tool, args, scope...)
	if err != nil {
		w.Fatalf("%s(%s): %v", tool, args, err)
	}
	return m
}

func (w *dataWorld) code(want, tool, args string, scope ...string) {
	w.Helper()
	if m, err := w.call(tool, args, scope...); problem.CodeOf(err) != want {
		w.Errorf("%s(%s): %v, %v; want the code %s", tool, args, m, err, want)
	}
}

// edit writes a page's file as an editor does.
func (w *dataWorld) edit(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.vault, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

func item(m map[string]any, i int) map[string]any { return m["items"].([]any)[i].(map[string]any) }

func TestTools_FromAQuestionToAGroundedFact(t *testing.T) {
	w := newDataWorld(t)
	hits := w.ok("search_documents", `{"query":"when does a lease end","limit":1}`, "acme")
	if hits["total"].(float64) < 2 || hits["cursor"] == nil || fmt.Sprint(hits["fusion"]) != "map[k:60 method:rrf signals:[bm25]]" {
		t.Fatalf("%v", hits)
	}
	doc := item(hits, 0)["document"].(string)
	if s := item(hits, 0)["snippet"].(string); !strings.Contains(s, "3600 seconds") {
		t.Errorf("snippet %q", s)
	}
	next := w.ok("search_documents", fmt.Sprintf(`{"query":"when does a lease end","limit":1,"cursor":%q}`, hits["cursor"]), "acme")
	if item(next, 0)["rank"].(float64) != 2 {
		t.Errorf("the next page begins with %v", item(next, 0))
	}
	w.code("cursor_invalid", "search_documents", fmt.Sprintf(`{"query":"another","cursor":%q}`, hits["cursor"]), "acme")

	text := w.ok("read_document", fmt.Sprintf(`{"document":%q,"start":10,"length":9}`, doc), "acme")
	if text["text"] != "A lease e" || text["next"].(float64) != 19 {
		t.Errorf("%v", text)
	}
	check := w.ok("check_evidence", fmt.Sprintf(`{"document":%q,"quote":"3600 seconds"}`, doc), "acme")
	if check["grounded"] != true || check["offset"].(float64) != 29 {
		t.Errorf("%v", check)
	}
	if bad := w.ok("check_evidence", fmt.Sprintf(`{"document":%q,"quote":"7200 seconds"}`, doc), "acme"); bad["grounded"] != false || bad["code"] != "quote_not_found" {
		t.Errorf("%v", bad)
	}
	fact := `{"entity":"acme","predicate":"lease_seconds","object":"3600","source":"` + doc + `","quote":"3600 seconds"`
	rem := w.ok("remember_fact", fact+"}", "acme")
	w.code("already_exists", "remember_fact", fact+"}", "acme")
	w.code("quote_not_found", "remember_fact", strings.Replace(fact, "3600 seconds", "for ever", 1)+"}", "acme")
	w.code("outside_scope", "remember_fact", `{"entity":"beta","predicate":"p","object":"o"}`, "acme")
	got := w.ok("query_knowledge", `{"entity":"acme"}`, "acme")
	if got["total"].(float64) != 1 || item(got, 0)["trust"] != "grounded" || item(got, 0)["observer"] != "Reviewer" || item(got, 0)["offset"].(float64) != 29 {
		t.Errorf("%v", got)
	}
	w.ok("remember_fact", fmt.Sprintf(`{"entity":"acme","predicate":"lease_seconds","object":"7200","supersedes":%q}`, rem["id"]), "acme")
	if got := w.ok("query_knowledge", `{"entity":"acme","predicate":"lease_seconds"}`, "acme"); got["total"].(float64) != 1 || item(got, 0)["object"] != "7200" {
		t.Errorf("after the correction: %v", got)
	}
	r := w.data.DB.View(store.Owner())
	defer r.Close()
	if rej, err := tables.Rejections.All(r, store.Query[tables.Rejection]{}); err != nil || len(rej) != 1 || rej[0].Code != "quote_not_found" {
		t.Errorf("rejections: %+v, %v", rej, err)
	}
}

func TestTools_NothingIsThereForAnotherScope(t *testing.T) {
	w := newDataWorld(t)
	doc := importdoc.ID("ws-1", "README.md")
	rec := w.ok("record_observation", `{"entity":"acme","text":"leases are short"}`, "acme")
	mut := rec["mutations"].([]any)[0].(string)
	for tool, args := range map[string]string{
		"search_documents": `{"query":"lease"}`, "query_documents": `{}`, "query_knowledge": `{}`, "query_codebase": `{"kind":"overview"}`,
		"list_mutations": `{}`, "search": `{"query":"lease"}`,
	} {
		if m := w.ok(tool, args, "beta"); m["total"].(float64) != 0 || len(m["items"].([]any)) != 0 {
			t.Errorf("%s: %v", tool, m)
		}
		if m := w.ok(tool, args, "acme"); tool != "query_knowledge" && m["total"].(float64) == 0 {
			t.Errorf("%s sees nothing of its own", tool)
		}
	}
	w.code("not_found", "read_document", fmt.Sprintf(`{"document":%q}`, doc), "beta")
	w.code("not_found", "check_evidence", fmt.Sprintf(`{"document":%q,"quote":"x"}`, doc), "beta")
	w.code("not_found", "get_mutation", fmt.Sprintf(`{"id":%q}`, mut), "beta")
	w.code("not_found", "revert_mutation", fmt.Sprintf(`{"id":%q}`, mut), "beta")
	if o := w.ok("query_codebase", `{"kind":"overview"}`, "beta")["overview"].(map[string]any); o["symbols"].(float64)+o["edges"].(float64)+o["modules"].(float64) != 0 {
		t.Errorf("%v", o)
	}
}

func TestTools_AWriteIsShownJournaledAndReverted(t *testing.T) {
	w := newDataWorld(t)
	made := w.ok("write_wiki_page", `{"slug":"plan","title":"Plan","body":"one","entity":"acme","reason":"start"}`, "acme")
	if made["created"] != true {
		t.Errorf("%v", made)
	}
	w.ok("write_wiki_page", `{"slug":"other","body":"see [[note/plan]]","entity":"acme"}`, "acme")
	changed := w.ok("write_wiki_page", `{"slug":"plan","title":"Plan","body":"two","entity":"acme"}`, "acme")
	if page := w.ok("get_wiki_page", `{"slug":"plan"}`, "acme"); page["body"] != "two\n" || page["signature"] != "valid" || fmt.Sprint(page["backlinks"]) != "[note/other]" {
		t.Errorf("%v", page)
	}
	first, second := made["mutations"].([]any)[0].(string), changed["mutations"].([]any)[0].(string)
	list := w.ok("list_mutations", `{"table":"wiki_pages","key":"note/plan","compact":true}`, "acme")
	if list["total"].(float64) != 2 || item(list, 0)["id"] != second || item(list, 1)["action"] != "insert" || len(item(list, 0)) != 5 {
		t.Errorf("%v", list)
	}
	if m := w.ok("get_mutation", fmt.Sprintf(`{"id":%q}`, first), "acme"); m["current"] != false || fmt.Sprint(m["later"]) != "["+second+"]" || m["reason"] != "start" || m["before"] != nil {
		t.Errorf("%v", m)
	}
	w.code("revert_conflict", "revert_mutation", fmt.Sprintf(`{"id":%q}`, first), "acme")
	back := w.ok("revert_mutation", fmt.Sprintf(`{"id":%q,"reason":"no"}`, second), "acme")
	if page := w.ok("get_wiki_page", `{"slug":"plan"}`, "acme"); page["body"] != "one\n" {
		t.Errorf("%v", page)
	}
	w.ok("revert_mutation", fmt.Sprintf(`{"id":%q}`, back["mutations"].([]any)[0]), "acme")
	if page := w.ok("get_wiki_page", `{"slug":"plan"}`, "acme"); page["body"] != "two\n" {
		t.Errorf("after the revert of the revert: %v", page)
	}
	// An edit by hand is the truth from then on.
	if err := os.WriteFile(filepath.Join(w.vault, "note", "plan.md"), []byte("---\nentity: acme\n---\nby hand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if page := w.ok("get_wiki_page", `{"slug":"plan"}`, "acme"); page["body"] != "by hand\n" || page["signature"] != "unsigned" {
		t.Errorf("%v", page)
	}
	w.code("not_found", "get_wiki_page", `{"slug":"missing"}`, "acme")
	w.code("not_found", "get_wiki_page", `{"slug":"plan"}`, "beta")
}

// A page whose file says a thing twice is told of to those who see the page.
func TestTools_AnAmbiguousPageIsNoNewsToAnotherScope(t *testing.T) {
	w := newDataWorld(t)
	w.ok("write_wiki_page", `{"slug":"plan","body":"one","entity":"acme"}`, "acme")
	w.edit("note/plan.md", "---\nentity: acme\nentity: beta\n---\ntwo\n")
	w.edit("note/fresh.md", "---\nentity: beta\nentity: acme\n---\nx\n")
	w.code(wiki.CodeAmbiguous, "get_wiki_page", `{"slug":"plan"}`, "acme")
	w.code(wiki.CodeAmbiguous, "write_wiki_page", `{"slug":"plan","body":"three","entity":"acme"}`, "acme")
	w.code("not_found", "get_wiki_page", `{"slug":"plan"}`, "beta")
	w.code(wiki.CodeAmbiguous, "get_wiki_page", `{"slug":"fresh"}`, "*")
	w.code("not_found", "get_wiki_page", `{"slug":"fresh"}`, "acme")
}

// What the owner approved is what is done, or nothing is, and the refusal names
// what differs first.
func TestTools_WhatWasApprovedIsWhatIsDone(t *testing.T) {
	const plan = `{"slug":"plan","title":"Plan","body":"mine","entity":"acme"}`
	for name, c := range map[string]struct {
		before    string // of the page; "" is none
		meanwhile func(*dataWorld)
		differs   string // "" is done
	}{
		"nothing happened":        {before: "one", meanwhile: func(*dataWorld) {}},
		"something else happened": {before: "one", meanwhile: func(w *dataWorld) { w.ok("write_wiki_page", `{"slug":"other","body":"x","entity":"acme"}`, "acme") }},
		"the page was changed": {before: "one", meanwhile: func(w *dataWorld) {
			w.ok("write_wiki_page", `{"slug":"plan","title":"Plan","body":"two","entity":"acme"}`, "acme")
		}, differs: `body is "two\n", and was "one\n"`},
		"the page was made":           {meanwhile: func(w *dataWorld) { w.ok("write_wiki_page", `{"slug":"plan","body":"two","entity":"acme"}`, "acme") }, differs: "is there now"},
		"the page was edited by hand": {before: "one", meanwhile: func(w *dataWorld) { w.edit("note/plan.md", "---\nentity: acme\n---\nby hand\n") }, differs: `body is "by hand\n", and was "one\n"`},
		"the page was undone": {before: "one", meanwhile: func(w *dataWorld) {
			list := w.ok("list_mutations", `{"table":"wiki_pages","key":"note/plan"}`, "acme")
			w.ok("revert_mutation", fmt.Sprintf(`{"id":%q}`, item(list, 0)["id"]), "acme")
		}, differs: "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDataWorld(t)
			if c.before != "" {
				w.ok("write_wiki_page", fmt.Sprintf(`{"slug":"plan","title":"Plan","body":%q,"entity":"acme"}`, c.before), "acme")
			}
			w.meanwhile = func() { c.meanwhile(w) }
			_, err := w.call("write_wiki_page", plan, "acme")
			if c.differs == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if problem.CodeOf(err) != "approval_outdated" || !strings.Contains(err.Error(), "note/plan") || !strings.Contains(err.Error(), c.differs) {
				t.Errorf("%v, want %q", err, c.differs)
			}
			if page, err := w.call("get_wiki_page", `{"slug":"plan"}`, "acme"); err == nil && page["body"] == "mine\n" {
				t.Error("it was written all the same")
			}
		})
	}
}

func TestTools_APreviewIsWhatTheCallThenDoes(t *testing.T) {
	w := newDataWorld(t)
	for _, tool := range w.tools.Tools() {
		if tool.Name != "record_observation" {
			continue
		}
		c := &registry.Call{ID: "call-x", Tool: tool.Canonical, Authority: messages.Authority{Connection: "conn-1", Name: "R", Scope: []string{"*"}}}
		args := json.RawMessage(`{"text":"seen"}`)
		changes, err := tool.Preview(context.Background(), c, args)
		if err != nil || len(changes) != 1 {
			t.Fatalf("%+v, %v", changes, err)
		}
		body, err := tool.Run(context.Background(), c, args)
		if err != nil || !strings.Contains(string(body), changes[0].Key) {
			t.Errorf("the preview says %s, the call %s, %v", changes[0].Key, body, err)
		}
	}
}

func TestQueryCodebase_WhoCallsWhom(t *testing.T) {
	w := newDataWorld(t)
	o := w.ok("query_codebase", `{"kind":"overview","entity_id":"acme"}`, "*")["overview"].(map[string]any)
	if fmt.Sprint(o) != "map[by_kind:map[program:1] by_language:map[go:1] edges:1 modules:1 symbols:2]" {
		t.Errorf("%v", o)
	}
	sym := w.ok("query_codebase", `{"kind":"symbols","query":"open lease"}`, "acme")
	if item(sym, 0)["name"] != "openLease" || item(sym, 0)["start"].(float64) != 7 || item(sym, 0)["doc"] != "openLease opens one." {
		t.Errorf("%v", sym)
	}
	callers := w.ok("query_codebase", `{"kind":"callers","symbol":"openLease"}`, "acme")
	if callers["total"].(float64) != 1 || !strings.Contains(item(callers, 0)["caller"].(string), "main@main.go:4") || item(callers, 0)["exact"] != true {
		t.Errorf("%v", callers)
	}
	w.code("not_found", "query_codebase", `{"kind":"callees","symbol":"nothing"}`, "acme")
	w.code("symbol_missing", "query_codebase", `{"kind":"callers"}`, "acme")
}

func TestSearch_EverythingInOneRanking(t *testing.T) {
	w := newDataWorld(t)
	w.ok("write_wiki_page", `{"slug":"lease","body":"what a lease is","entity":"acme"}`, "acme")
	w.ok("record_observation", `{"entity":"acme","text":"the lease was too short"}`, "acme")
	types := map[string]bool{}
	cursor := ""
	n := 0
	for {
		m := w.ok("search", fmt.Sprintf(`{"query":"lease","limit":2,"explain":true,"cursor":%q}`, cursor), "acme")
		for i := range m["items"].([]any) {
			n++
			types[item(m, i)["type"].(string)] = true
			if item(m, i)["bm25"].(float64) <= 0 {
				t.Errorf("%v", item(m, i))
			}
		}
		if m["cursor"] == nil {
			if int(m["total"].(float64)) != n {
				t.Errorf("total %v, shown %d", m["total"], n)
			}
			break
		}
		cursor = m["cursor"].(string)
	}
	for _, want := range []string{"document", "wiki_page", "observation", "symbol"} {
		if !types[want] {
			t.Errorf("no %s among %v", want, types)
		}
	}
	if m := w.ok("search", `{"query":"lease","types":["wiki_page"]}`, "acme"); m["total"].(float64) != 1 || item(m, 0)["id"] != "note/lease" {
		t.Errorf("%v", m)
	}
}
