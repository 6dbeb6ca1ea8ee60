package approvals

import "context"

type terminalKey struct{}

// AtTerminal says at which terminal of the owner's logins what is asked for in ctx
// was asked for, "" at none. name is called when something is put before the owner.
func AtTerminal(ctx context.Context, name func() string) context.Context {
	return context.WithValue(ctx, terminalKey{}, name)
}

// Terminal is the terminal that AtTerminal named, "" when it named none.
func Terminal(ctx context.Context) string {
	if name, ok := ctx.Value(terminalKey{}).(func() string); ok {
		return name()
	}
	return ""
}
