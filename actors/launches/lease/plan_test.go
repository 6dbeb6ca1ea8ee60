package lease

import (
	"reflect"
	"strings"
	"testing"

	"sophia/messages"
	"sophia/messages/problem"
)

// leaves calls f with each leaf field of v and its dotted JSON name.
func leaves(v reflect.Value, prefix string, f func(name string, field reflect.Value)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Field(i).Kind() == reflect.Struct {
			leaves(v.Field(i), prefix+name+".", f)
			continue
		}
		f(prefix+name, v.Field(i))
	}
}

func drift(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.ValueOf("x")))
	default:
		panic("a plan field of a kind this test does not know: " + v.Kind().String())
	}
}

func TestPlan_EveryDriftedFieldIsRefusedByName(t *testing.T) {
	base := messages.Plan{Launch: "lp-1", Scope: []string{"acme"}, Permission: messages.Assistant}
	if err := Mismatch(base, base); err != nil {
		t.Fatalf("the same plan: %v", err)
	}
	var names []string
	leaves(reflect.ValueOf(&base).Elem(), "", func(name string, _ reflect.Value) { names = append(names, name) })
	for _, want := range names {
		t.Run(want, func(t *testing.T) {
			op := base
			op.Scope = []string{"acme"}
			leaves(reflect.ValueOf(&op).Elem(), "", func(name string, v reflect.Value) {
				if name == want {
					drift(v)
				}
			})
			err := Mismatch(base, op)
			if problem.CodeOf(err) != "plan_field_mismatch" || problem.Of(err).Valid[0] != want {
				t.Errorf("got %v, want a refusal that names %s", err, want)
			}
			if Digest(base) == Digest(op) {
				t.Error("the digest did not change")
			}
		})
	}
}
