package ownercli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

var wiring = Wiring{URL: "http://127.0.0.1:8765/mcp", BearerFile: `/home/o "x"/conn-1.bearer`, Wrapper: "/usr/lib/sophia/sophia-wrapper"}

func TestConnect_CodexKeepsEverythingElse(t *testing.T) {
	before := `# mine
model = "gpt-5" # the good one

[mcp_servers.other]
command = "x"

[mcp_servers.sophia]
command = "old"
# a remark of mine
args = ["--old"]

[mcp_servers.sophia.env]
A = "b"

[projects."/src"]
trust_level = "trusted"
`
	after, err := editCodex([]byte(before), wiring)
	if err != nil {
		t.Fatal(err)
	}
	want := `# mine
model = "gpt-5" # the good one

[mcp_servers.other]
command = "x"

[mcp_servers.sophia]
command = "/usr/lib/sophia/sophia-wrapper"
args = ["--url", "http://127.0.0.1:8765/mcp", "--bearer-file", "/home/o \"x\"/conn-1.bearer"]
# a remark of mine


[projects."/src"]
trust_level = "trusted"
`
	if string(after) != want {
		t.Errorf("got\n%s", after)
	}
	again, err := editCodex(after, wiring)
	if err != nil || !bytes.Equal(again, after) {
		t.Errorf("a second time: %v\n%s", err, again)
	}
}

func TestConnect_CodexFreshFileAndHTTP(t *testing.T) {
	w := wiring
	w.HTTP = true
	for before, want := range map[string]string{
		"":              "[mcp_servers.sophia]\nurl = \"http://127.0.0.1:8765/mcp\"\nbearer_token_env_var = \"SOPHIA_BEARER\"\n",
		"model = \"x\"": "model = \"x\"\n\n[mcp_servers.sophia]\nurl = \"http://127.0.0.1:8765/mcp\"\nbearer_token_env_var = \"SOPHIA_BEARER\"\n",
	} {
		after, err := editCodex([]byte(before), w)
		if err != nil || string(after) != want {
			t.Errorf("%q: %v\n%s", before, err, after)
		}
	}
}

// What can't be changed safely is left alone.
func TestConnect_CodexRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, before := range map[string]string{
		"inline table":         "mcp_servers = { sophia = { command = \"x\" } }\n",
		"dotted keys":          "mcp_servers.sophia.command = \"x\"\n",
		"in a string":          "text = \"\"\"\n[mcp_servers.sophia]\ncommand = 1\n\"\"\"\n",
		"not TOML":             "model = \n",
		"a table that is none": "[[mcp_servers]]\nname = \"x\"\n",
	} {
		if after, err := editCodex([]byte(before), wiring); err == nil {
			t.Errorf("%s became\n%s", name, after)
		}
	}
}

func TestConnect_JSONKeepsEverythingElse(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"empty": {"", "{\n  \"mcpServers\": {\n    \"sophia\": 1\n  }\n}\n"},
		"other servers": {
			"{\n    \"z\": [1,  2],\n    \"mcpServers\": {\n        \"other\": {}\n    },\n    \"a\": 1.50\n}",
			"{\n    \"z\": [1,  2],\n    \"mcpServers\": {\n        \"other\": {},\n        \"sophia\": 1\n    },\n    \"a\": 1.50\n}"},
		"already there": {"{\"mcpServers\":{\"sophia\":{\"command\":\"old\"},\"b\":2}}", "{\"mcpServers\":{\"sophia\":1,\"b\":2}}"},
		"no servers":    {"{\"a\": {}}\n", "{\"a\": {},\n  \"mcpServers\": {\n    \"sophia\": 1\n  }}\n"},
	} {
		got, err := SetJSON([]byte(c.before), []string{"mcpServers", "sophia"}, 1)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, before := range map[string]string{
		"comments": "{ // mine\n}", "a list": "[]", "servers that are none": `{"mcpServers": []}`, "twice": `{"mcpServers":{},"mcpServers":{}}`, "two values": `{} {}`,
	} {
		if got, err := SetJSON([]byte(before), []string{"mcpServers", "sophia"}, 1); err == nil {
			t.Errorf("%s became %s", name, got)
		}
	}
}

// Setting a member of any object changes that member and no other byte's value.
func TestConnect_JSONChangesOneMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "mcpServers", "é\"", ""}), rapid.Int().AsAny(), 0, 4).Draw(t, "object")
		if rapid.Bool().Draw(t, "servers") {
			value["mcpServers"] = map[string]any{"other": 1, "x": []any{}}
		} else {
			delete(value, "mcpServers")
		}
		text, _ := json.Marshal(value)
		if rapid.Bool().Draw(t, "indented") {
			text, _ = json.MarshalIndent(value, "", rapid.SampledFrom([]string{"  ", "\t", " "}).Draw(t, "indent"))
		}
		after, err := SetJSON(text, []string{"mcpServers", "sophia"}, stdioEntry{Command: "c", Args: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		var had, has map[string]any
		if json.Unmarshal(text, &had) != nil || json.Unmarshal(after, &has) != nil {
			t.Fatalf("%s\nbecame\n%s", text, after)
		}
		servers := has["mcpServers"].(map[string]any)
		if !reflect.DeepEqual(servers["sophia"], map[string]any{"command": "c", "args": []any{"x"}}) {
			t.Fatalf("%s", after)
		}
		delete(servers, "sophia")
		if _, was := had["mcpServers"]; !was {
			delete(has, "mcpServers")
		}
		if !reflect.DeepEqual(had, has) {
			t.Fatalf("%s\nbecame\n%s", text, after)
		}
		again, err := SetJSON(after, []string{"mcpServers", "sophia"}, stdioEntry{Command: "c", Args: []string{"x"}})
		if err != nil || !bytes.Equal(after, again) {
			t.Fatalf("a second time:\n%s", again)
		}
	})
}

func FuzzConnect_Configs(f *testing.F) {
	for _, seed := range []string{"", "a = 1\n[mcp_servers.sophia]\n", "[mcp_servers]\nsophia = 1\n", `{"mcpServers":{"sophia":{}}}`, "{}", "[mcp_servers . \"sophia\"]\r\nx=1\r\n[b]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, before string) {
		if after, err := editCodex([]byte(before), wiring); err == nil {
			var has map[string]any
			if err := toml.Unmarshal(after, &has); err != nil {
				t.Fatalf("%q became %q: %v", before, after, err)
			}
			if !reflect.DeepEqual(takeSophia(has), any(codexValues(wiring))) {
				t.Fatalf("%q became %q", before, after)
			}
		}
		if after, err := SetJSON([]byte(before), []string{"mcpServers", "sophia"}, 1); err == nil && !json.Valid(after) {
			t.Fatalf("%q became %q", before, after)
		}
	})
}

func TestTool_Arguments(t *testing.T) {
	a := &App{In: strings.NewReader(`{"from":"stdin"}`)}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, `{}`},
		{[]string{`{"a": 1}`}, `{"a": 1}`},
		{[]string{"a=1", "b=text", `c=["x"]`, "d=true", "e=", `f="1"`}, `{"a":1,"b":"text","c":["x"],"d":true,"e":"","f":"1"}`},
		{[]string{"@-"}, `{"from":"stdin"}`},
	} {
		got, err := a.arguments(c.args)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %s, %v", c.args, got, err)
		}
	}
	for _, bad := range [][]string{{"x"}, {"=1"}, {"a=1", "a=2"}, {"{"}, {"@/none"}} {
		if got, err := a.arguments(bad); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
}
