package ownerapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"sophia/hostd/doctor"
	"sophia/messages"
	"sophia/messages/problem"
)

// maxWait bounds one long poll for a launch; the client asks again.
const maxWait = 30 * time.Second

type none = struct{}

func (s *Server) routes() {
	s.mux.HandleFunc("GET "+Root+"/status", handle(s, 200, func(r *http.Request, _ none) (Status, error) {
		if s.Services.Status == nil {
			return Status{}, notAvailable("status")
		}
		return s.Services.Status(r.Context())
	}))
	s.mux.HandleFunc("GET "+Root+"/doctor", handle(s, 200, func(r *http.Request, _ none) (doctor.Daemon, error) {
		if s.Services.Doctor == nil {
			return doctor.Daemon{}, notAvailable("doctor")
		}
		return s.Services.Doctor(r.Context(), r.URL.Query().Get("full") == "true")
	}))
	if c := s.Services.Connections; c != nil {
		s.connectionRoutes(c)
	}
	if ws := s.Services.Workspaces; ws != nil {
		s.workspaceRoutes(ws)
	}
	if l := s.Services.Launches; l != nil {
		s.launchRoutes(l)
	}
	if a := s.Services.Approvals; a != nil {
		s.approvalRoutes(a)
	}
	if j := s.Services.Journal; j != nil {
		s.journalRoutes(j)
	}
	if t := s.Services.Tools; t != nil {
		s.toolRoutes(t)
	}
	if h := s.Services.Harnesses; h != nil {
		s.mux.HandleFunc("GET "+Root+"/harnesses", handle(s, 200, func(r *http.Request, _ none) (Page[Harness], error) {
			items, err := h.List(r.Context())
			return pageOf(items), err
		}))
		s.mux.HandleFunc("POST "+Root+"/harnesses", handle(s, 201, func(r *http.Request, ask AdoptRequest) (Harness, error) {
			return h.Adopt(r.Context(), ask)
		}))
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, problem.New("path_not_found", "there is no %s %s here", r.Method, r.URL.Path))
	})
}

func (s *Server) connectionRoutes(c Connections) {
	s.mux.HandleFunc("GET "+Root+"/connections", handle(s, 200, func(r *http.Request, _ none) (Page[messages.ConnectionRow], error) {
		items, err := c.List(r.Context())
		return pageOf(items), err
	}))
	s.mux.HandleFunc("POST "+Root+"/connections", handle(s, 201, func(r *http.Request, ask MintRequest) (Minted, error) {
		row, bearer, err := c.Mint(r.Context(), ask)
		if err != nil {
			return Minted{}, err
		}
		defer bearer.Zero()
		file, err := writeBearer(s.Bearers, row.Connection, bearer)
		if err != nil {
			// A connection that nobody can use must not stay usable.
			if _, undo := c.Revoke(context.WithoutCancel(r.Context()), row.Connection); undo != nil {
				s.Log.Error("a minted connection without a bearer file could not be revoked", "connection", row.Connection, "error", undo)
			}
			return Minted{}, err
		}
		return Minted{ConnectionRow: row, BearerFile: file, MCP: s.mcp()}, nil
	}))
	s.mux.HandleFunc("DELETE "+Root+"/connections/{id}", handle(s, 200, func(r *http.Request, _ none) (messages.ConnectionRow, error) {
		row, err := c.Revoke(r.Context(), r.PathValue("id"))
		if err != nil {
			return row, err
		}
		return row, removeBearer(s.Bearers, row.Connection)
	}))
}

func (s *Server) mcp() string {
	if s.MCP == nil {
		return ""
	}
	return s.MCP()
}

func (s *Server) workspaceRoutes(ws Workspaces) {
	s.mux.HandleFunc("GET "+Root+"/workspaces", handle(s, 200, func(r *http.Request, _ none) (Page[messages.Workspace], error) {
		items, err := ws.List(r.Context())
		return pageOf(items), err
	}))
	s.mux.HandleFunc("POST "+Root+"/workspaces", handle(s, 201, func(r *http.Request, ask AddWorkspace) (AddedWorkspace, error) {
		return ws.Add(r.Context(), ask)
	}))
	s.mux.HandleFunc("GET "+Root+"/workspaces/{id}/profiles", handle(s, 200, func(r *http.Request, _ none) (Page[messages.LaunchProfile], error) {
		items, err := ws.Profiles(r.Context(), r.PathValue("id"))
		return pageOf(items), err
	}))
}

func (s *Server) launchRoutes(l Launches) {
	s.mux.HandleFunc("POST "+Root+"/workspaces/{id}/launches", handle(s, 202, func(r *http.Request, ask StartRequest) (messages.Lease, error) {
		return l.Propose(r.Context(), r.PathValue("id"), ask)
	}))
	s.mux.HandleFunc("GET "+Root+"/launches", handle(s, 200, func(r *http.Request, _ none) (Page[messages.Lease], error) {
		items, err := l.List(r.Context())
		return pageOf(items), err
	}))
	s.mux.HandleFunc("GET "+Root+"/launches/{id}", handle(s, 200, func(r *http.Request, _ none) (messages.Lease, error) {
		after := r.URL.Query().Get("after")
		if after == "" {
			return l.Get(r.Context(), r.PathValue("id"))
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxWait)
		defer cancel()
		return l.Wait(ctx, r.PathValue("id"), messages.LeaseState(after))
	}))
	s.mux.HandleFunc("POST "+Root+"/launches/{id}/stop", handle(s, 202, func(r *http.Request, _ none) (messages.Lease, error) {
		return l.Stop(r.Context(), r.PathValue("id"))
	}))
	s.mux.HandleFunc("POST "+Root+"/launches/{id}/attach", func(w http.ResponseWriter, r *http.Request) {
		socket, token, err := l.Attach(r.Context(), r.PathValue("id"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		defer token.Zero()
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(SocketHeader, socket)
		// Raw bytes: the token is never a string, here or in the client.
		token.Use(func(b []byte) error { _, err := w.Write(b); return err })
	})
}

func (s *Server) approvalRoutes(a Approvals) {
	s.mux.HandleFunc("GET "+Root+"/approvals", handle(s, 200, func(r *http.Request, _ none) (Page[messages.ApprovalRequest], error) {
		items, err := a.List(r.Context())
		for i := range items {
			items[i].Code = "" // what is typed to approve is for a tray's eyes
		}
		return pageOf(items), err
	}))
	s.mux.HandleFunc("POST "+Root+"/approvals/{id}/verdict", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, needsPresence())
	})
	if s.Services.Trays != nil {
		s.mux.HandleFunc("GET "+Root+"/tray", func(w http.ResponseWriter, r *http.Request) { s.serveTray(w, r, a) })
	}
}

func needsPresence() *problem.Error {
	return problem.New("approval_needs_presence", "approving and denying take the owner's presence, which a key alone does not prove").
		WithHint("Answer in the Sophia tray: sophia-tray --terminal")
}

func (s *Server) journalRoutes(j Journal) {
	s.mux.HandleFunc("GET "+Root+"/journal", handle(s, 200, func(r *http.Request, _ none) (Page[Mutation], error) {
		q := r.URL.Query()
		query := JournalQuery{Table: q.Get("table"), Key: q.Get("key"), Cursor: q.Get("cursor")}
		if text := q.Get("limit"); text != "" {
			limit, err := strconv.Atoi(text)
			if err != nil || limit < 1 || limit > 1000 {
				return Page[Mutation]{}, problem.New("invalid_limit", "limit is a number from 1 to 1000")
			}
			query.Limit = limit
		}
		page, err := j.List(r.Context(), query)
		if page.Items == nil {
			page.Items = []Mutation{}
		}
		return page, err
	}))
	s.mux.HandleFunc("GET "+Root+"/journal/{seq}", handle(s, 200, func(r *http.Request, _ none) (Mutation, error) {
		seq, err := sequence(r)
		if err != nil {
			return Mutation{}, err
		}
		return j.Get(r.Context(), seq)
	}))
	s.mux.HandleFunc("POST "+Root+"/journal/{seq}/revert", handle(s, 201, func(r *http.Request, ask RevertRequest) (Mutation, error) {
		seq, err := sequence(r)
		if err != nil {
			return Mutation{}, err
		}
		return j.Revert(r.Context(), seq, ask.Reason)
	}))
}

func sequence(r *http.Request) (uint64, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return 0, problem.New("invalid_mutation", "a mutation is named by its sequence number, from 1").
			WithHint("sophia journal list shows them.")
	}
	return seq, nil
}

func (s *Server) toolRoutes(t Tools) {
	s.mux.HandleFunc("GET "+Root+"/tools", handle(s, 200, func(r *http.Request, _ none) (Page[Tool], error) {
		items, err := t.List(r.Context())
		return pageOf(items), err
	}))
	s.mux.HandleFunc("GET "+Root+"/tools/{name}", handle(s, 200, func(r *http.Request, _ none) (Tool, error) {
		return t.Describe(r.Context(), r.PathValue("name"))
	}))
	s.mux.HandleFunc("POST "+Root+"/tools/{name}", handle(s, 200, func(r *http.Request, arguments json.RawMessage) (json.RawMessage, error) {
		return t.Call(r.Context(), r.PathValue("name"), arguments)
	}))
}
