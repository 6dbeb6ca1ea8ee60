package lease

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"

	"sophia/messages"
	"sophia/messages/problem"
)

// planContext separates a plan's digest from every other SHA-256 in Sophia.
const planContext = "sophia-launch-plan-v1\n"

// Digest is the SHA-256 (hex) of the plan in its canonical encoding: JSON with
// the fields in the order of their declaration and no insignificant space.
func Digest(p messages.Plan) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a Plan has only strings, numbers and lists of them
	}
	sum := sha256.Sum256(append([]byte(planContext), b...))
	return hex.EncodeToString(sum[:])
}

// Mismatch compares the approved plan with the operation that is about to be
// carried out, and refuses by the name of the first field that differs:
// plan_field_mismatch, with the field in Valid and in the sentence.
func Mismatch(approved, operation messages.Plan) error {
	name := difference(reflect.ValueOf(approved), reflect.ValueOf(operation), "")
	if name == "" {
		return nil
	}
	return problem.New("plan_field_mismatch", "plan_field_mismatch: %s is not what the owner approved", name).
		WithHint("Start the agent again to have the new plan approved.").WithValid(name)
}

// difference returns the dotted JSON name of the first field that differs.
func difference(a, b reflect.Value, prefix string) string {
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		name = prefix + name
		x, y := a.Field(i), b.Field(i)
		switch {
		case x.Kind() == reflect.Struct:
			if d := difference(x, y, name+"."); d != "" {
				return d
			}
		case x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0: // nil and empty are the same list
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			return name
		}
	}
	return ""
}
