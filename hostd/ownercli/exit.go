package ownercli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"sophia/hostd/ownerapi"
	"sophia/messages/problem"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitRefused     = 3
	ExitUnreachable = 4
	ExitTimedOut    = 5
)

// ExitCode is what a command that ended with err exits with.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	switch code := problem.CodeOf(err); code {
	case "usage":
		return ExitUsage
	case "daemon_unreachable":
		return ExitUnreachable
	case "timed_out", "approval_timed_out", "expired":
		return ExitTimedOut
	case "denied", "refused":
		return ExitRefused
	default:
		if strings.HasPrefix(code, "approval_") {
			return ExitRefused
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ExitTimedOut
	}
	if refusal, ok := errors.AsType[*ownerapi.ResponseError](err); ok {
		switch refusal.Status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
			return ExitRefused
		}
	}
	return ExitFailed
}

func usage(format string, args ...any) error {
	return problem.New("usage", format, args...).WithHint("See --help.")
}

// PrintError says what happened, what to do, and the code; or, with --json,
// the same as one value on standard output.
func (a *App) PrintError(err error) {
	p := presentable(err)
	if a.JSON {
		writeIndented(a.Out, map[string]*problem.Error{"error": p})
		return
	}
	fmt.Fprintf(a.Err, "sophia: %s\n", oneLine(p.Message))
	if len(p.Valid) > 0 {
		fmt.Fprintf(a.Err, "  valid: %s\n", oneLine(strings.Join(p.Valid, ", ")))
	}
	if p.Hint != "" {
		fmt.Fprintf(a.Err, "  %s\n", oneLine(p.Hint))
	}
	fmt.Fprintf(a.Err, "  (%s)\n", p.Code)
}

// presentable is err for the owner: what was not written for a person is still
// shown here, because the owner has nobody else to ask.
func presentable(err error) *problem.Error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return &problem.Error{Code: "failed", Message: err.Error()}
	}
	if _, told := errors.AsType[*problem.Error](p.Cause); p.Cause == nil || told || p.Code == "daemon_unreachable" {
		return p // the message has said it
	}
	shown := *p
	shown.Message += ": " + p.Cause.Error()
	return &shown
}

func writeIndented(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}
