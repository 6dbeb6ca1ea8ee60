package modelapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"sophia/testkit/modelapi"
)

func post(t *testing.T, url, body string) string {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestModel_ResponsesCallsThenSaysTheFinalText(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient", Arguments: `{"goal":"x"}`}}, Final: "bye"})
	const tools = `"tools":[{"type":"function","name":"exec"},{"type":"namespace","name":"mcp__sophia","tools":[{"name":"sophia_orient"}]}]`
	first := post(t, m.URL+"/v1/responses", `{"model":"m","input":[],`+tools+`}`)
	for _, want := range []string{`"namespace":"mcp__sophia"`, `"name":"sophia_orient"`, `"arguments":"{\"goal\":\"x\"}"`, "event: response.completed"} {
		if !strings.Contains(first, want) {
			t.Errorf("%s\nlacks %s", first, want)
		}
	}
	second := post(t, m.URL+"/v1/responses", `{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":[{"type":"text","text":"oriented"}]}],`+tools+`}`)
	if !strings.Contains(second, `"text":"bye"`) {
		t.Error(second)
	}
	out, err := m.WaitToolOutput(context.Background())
	if err != nil || out.Text != "oriented" || out.CallID != "c" {
		t.Errorf("%+v %v", out, err)
	}
	if n := len(m.Requests()); n != 2 {
		t.Errorf("%d requests were recorded", n)
	}
}

func TestModel_MessagesCallsThenSaysTheFinalText(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "bye"})
	const tools = `"tools":[{"name":"Bash"},{"name":"mcp__sophia__sophia_orient"}]`
	for _, stream := range []string{"true", "false"} {
		got := post(t, m.URL+"/v1/messages", `{"model":"m","stream":`+stream+`,"messages":[{"role":"user","content":"hi"}],`+tools+`}`)
		if !strings.Contains(got, `"type":"tool_use"`) || !strings.Contains(got, `"name":"mcp__sophia__sophia_orient"`) {
			t.Errorf("stream %s: %s", stream, got)
		}
	}
	got := post(t, m.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":"oriented"}]}],`+tools+`}`)
	if out, err := m.WaitToolOutput(context.Background()); err != nil || out.Text != "oriented" || !strings.Contains(got, "bye") {
		t.Errorf("%+v %v %s", out, err, got)
	}
}

func TestModel_WaitsForServersThatAreNotThereYet(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}, Final: "bye"})
	first := post(t, m.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"Bash"},{"name":"WaitForMcpServers"}]}`)
	if !strings.Contains(first, `"name":"WaitForMcpServers"`) {
		t.Fatal(first)
	}
	id := regexp.MustCompile(`"id":"(toolu_[^"]+)"`).FindStringSubmatch(first)[1]
	second := post(t, m.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"`+id+`","content":"connected"}]}],"tools":[{"name":"mcp__sophia__sophia_orient"}]}`)
	if !strings.Contains(second, `"name":"mcp__sophia__sophia_orient"`) {
		t.Error(second)
	}
	if out := m.ToolOutputs(); len(out) != 0 {
		t.Errorf("waiting counts as a result: %+v", out)
	}
}

func TestModel_TwoSessionsHaveCallsOfTheirOwn(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}})
	ask := func() string {
		got := post(t, m.URL+"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"mcp__sophia__sophia_orient"}]}`)
		return regexp.MustCompile(`"id":"(toolu_[^"]+)"`).FindStringSubmatch(got)[1]
	}
	if a, b := ask(), ask(); a == b {
		t.Errorf("both are %s", a)
	}
}

func TestModel_SaysWhenTheToolIsNotOffered(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{Calls: []modelapi.Call{{Tool: "sophia.orient"}}})
	post(t, m.URL+"/v1/responses", `{"model":"m","input":[],"tools":[{"type":"function","name":"exec"}]}`)
	if _, err := m.WaitToolOutput(context.Background()); !errors.Is(err, modelapi.ErrNotOffered) || !strings.Contains(err.Error(), "exec") {
		t.Error(err)
	}
}

func TestModel_WaitEndsWithItsContext(t *testing.T) {
	m := modelapi.Start(t, modelapi.Script{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := m.WaitToolOutput(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
