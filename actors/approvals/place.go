package approvals

import "context"

type placeKey struct{}

// At says at which terminal of the owner's logins what is asked for in ctx was
// asked for. place is called when something is put before the owner.
func At(ctx context.Context, place func() string) context.Context {
	return context.WithValue(ctx, placeKey{}, place)
}

// Place is the terminal that At named, "" when it named none.
func Place(ctx context.Context) string {
	if place, ok := ctx.Value(placeKey{}).(func() string); ok {
		return place()
	}
	return ""
}
