package ownertext

import (
	"context"
	"errors"
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
		if strings.HasPrefix(code, "approval_") && !strings.HasSuffix(code, "_not_found") {
			return ExitRefused
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ExitTimedOut
	}
	if refusal, ok := errors.AsType[*ownerapi.ResponseError](err); ok {
		switch refusal.Status {
		case http.StatusBadRequest:
			return ExitUsage
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity:
			return ExitRefused
		}
	}
	return ExitFailed
}

// Presentable is err for the owner: what was not written for a person is still
// shown here, because the owner has nobody else to ask.
func Presentable(err error) *problem.Error {
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
