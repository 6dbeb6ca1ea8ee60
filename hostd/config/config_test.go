package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/messages/problem"
)

func TestConfig_NoFileGivesDefaults(t *testing.T) {
	c, err := Load(filepath.Join(t.TempDir(), "config.toml"))
	if err != nil || c.Listen != DefaultListen || time.Duration(c.Approvals.Timeout) != 5*time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestConfig_ReadsWhatTheOwnerSets(t *testing.T) {
	c, err := Parse([]byte("listen = '127.0.0.1:0'\n[approvals]\ntimeout = '90s'\n[harness.codex.config]\nmodel = 'm'\n"))
	if err != nil || c.Listen != "127.0.0.1:0" || time.Duration(c.Approvals.Timeout) != 90*time.Second || c.Harness["codex"].Config["model"] != "m" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestConfig_StrictIsolates(t *testing.T) {
	for text, want := range map[string]bool{"": false, "strict_isolates = true": true, "strict_isolates = false": false} {
		if c, err := Parse([]byte(text)); err != nil || c.StrictIsolates != want {
			t.Errorf("%q: %v, %v", text, c.StrictIsolates, err)
		}
	}
}

func TestConfig_RefusesByName(t *testing.T) {
	for in, want := range map[string]string{
		"lisen = 'x'":                             "line 1: unknown setting lisen",
		"strict_isolates = 'yes'":                 "line 1",
		"listen = '0.0.0.0:1'":                    "loopback",
		"listen = 'nonsense'":                     "address:port",
		"\n[approvals]\ntimeout = 'soon'":         "line 3",
		"[approvals]\ntimeout = '-1s'":            "approvals.timeout",
		"listen = ":                               "line 1",
		"[harness.codex.environment]\nLD_X = '1'": "LD_X",
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if problem.CodeOf(err) != "config_invalid" || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("listen = '127.0.0.1:0'\n[approvals]\ntimeout = '90s'\n[harness.codex.config]\nmodel = 'm'\n"))
	f.Add([]byte("[harness.x]\nname='x'\ncommand='x'\nversion='1'\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := Parse(b); err == nil && c.Listen == "" {
			t.Error("accepted without a listen address")
		}
	})
}
