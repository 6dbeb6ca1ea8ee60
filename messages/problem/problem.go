// Package problem has the one error type that Sophia shows to people and clients.
//
// It follows the idea of RFC 9457 (Problem Details): a stable machine-readable
// code, a sentence for a person, and what to do next. Clients and tests match
// the code, never the sentence.
package problem

import (
	"errors"
	"fmt"
)

// Error says what happened, why, and what to do next.
type Error struct {
	Code    string   `json:"code"`            // stable, snake_case; what clients match
	Message string   `json:"message"`         // what happened and why, one sentence
	Hint    string   `json:"hint,omitempty"`  // what to do next
	Valid   []string `json:"valid,omitempty"` // the values that would have been accepted
	Cause   error    `json:"-"`               // for logs and errors.Is, never shown to a client
}

// New returns an error with a code and a formatted message.
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap is New with a cause that errors.Is and errors.As can reach.
func Wrap(cause error, code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// WithHint returns the error with what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithValid returns the error with the values that would have been accepted.
func (e *Error) WithValid(valid ...string) *Error {
	c := *e
	c.Valid = valid
	return &c
}

// Error is the message, the cause where there is one, and the code.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %v (%s)", e.Message, e.Cause, e.Code)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is matches another *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first *Error in the chain, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Of returns the first *Error in the chain, or one with the code "internal"
// that shows nothing of err: what was not written for a person is not shown.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Wrap(err, "internal", "Something inside Sophia failed").WithHint("The daemon's log has the details.")
}
