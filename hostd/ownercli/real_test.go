package ownercli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sophia/actors/isolates/wire"
	"sophia/hostd/doctor"
	"sophia/hostd/ownerapi"
	"sophia/messages"
)

// foreground starts the daemon as a child and ends it with the test.
func (r *real) foreground() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	up, out := r.command(ctx, "up"), newWatched()
	up.Stdout, up.Stderr = out, out
	if err := up.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.run("down"); up.Wait(); cancel() })
	out.wait(r.t, "Ctrl-C stops it")
}

func (r *real) output(args ...string) (code int, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := r.command(ctx, args...)
	text, _ := cmd.Output()
	return cmd.ProcessState.ExitCode(), string(text)
}

func TestDoctor_OfARealDaemon(t *testing.T) {
	r := newReal(t, "XDG_RUNTIME_DIR=/nonexistent")
	r.foreground()
	for _, args := range [][]string{{"doctor", "--json"}, {"doctor", "--full", "--json"}} {
		code, out := r.output(args...)
		report, states := reportOf(t, out)
		for _, name := range []string{"daemon", "listen", "store", "clock", "isolates", "isolates.seccomp", "program.sophia-tray", "owner_key", "folder.runtime"} {
			if states[name] != doctor.OK {
				t.Errorf("%q: %s is %q", args, name, states[name])
			}
		}
		for _, name := range []string{"systemd", "daemon.unit", "tray", "harnesses"} {
			if states[name] != doctor.Warn {
				t.Errorf("%q: %s is %q", args, name, states[name])
			}
		}
		if code != 0 || report.Fail != 0 {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	tray := filepath.Join(r.bin, "sophia-tray")
	if err := os.Chmod(tray, 0o722); err != nil {
		t.Fatal(err)
	}
	code, out := r.output("doctor", "--json")
	if _, states := reportOf(t, out); code != 1 || states["program.sophia-tray"] != doctor.Fail {
		t.Errorf("a program that others can write to: exit %d\n%s", code, out)
	}
}

func TestDisconnect_UndoesWhatConnectDid(t *testing.T) {
	r := newReal(t, "XDG_RUNTIME_DIR=/nonexistent")
	r.foreground()
	config := filepath.Join(r.work, "config.toml")
	before := "# mine\nmodel = \"x\""
	r.write(config, before)
	var done struct{ Connection ownerapi.Minted }
	if err := json.Unmarshal([]byte(r.must("connect", "codex", "--scope", "acme", "--config", config, "--yes", "--json")), &done); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) == before {
		t.Fatalf("%v\n%s", err, text)
	}
	if code, out := r.run("disconnect", "codex"); code != 2 || !strings.Contains(out, "--yes") {
		t.Errorf("with nobody to ask: exit %d\n%s", code, out)
	}
	out := r.must("disconnect", "codex", "--config", config, "--yes")
	if !strings.Contains(out, "- [mcp_servers.sophia]") || !strings.Contains(out, "is as it was before") || !strings.Contains(out, done.Connection.Connection) {
		t.Errorf("disconnect:\n%s", out)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != before {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := os.Stat(done.Connection.BearerFile); !os.IsNotExist(err) {
		t.Errorf("the bearer's file: %v", err)
	}
	var page ownerapi.Page[messages.ConnectionRow]
	if err := json.Unmarshal([]byte(r.must("connection", "list", "--all", "--json")), &page); err != nil || len(page.Items) != 1 || page.Items[0].Revoked == nil {
		t.Errorf("%v %+v", err, page)
	}
	if code, out := r.run("disconnect", "codex", "--config", config, "--yes"); code != 1 || !strings.Contains(out, "(connection_not_found)") {
		t.Errorf("a second time: exit %d\n%s", code, out)
	}

	// A connection that was only minted has no configuration: it is revoked.
	var minted ownerapi.Minted
	if err := json.Unmarshal([]byte(r.must("connection", "mint", "Script", "--scope", "acme", "--json")), &minted); err != nil {
		t.Fatal(err)
	}
	if out := r.must("disconnect", minted.Connection, "--yes"); !strings.Contains(out, minted.Connection+" is revoked") {
		t.Errorf("disconnect:\n%s", out)
	}
}

// halfLocked is a program that says what a worker says whose host lacks a layer.
func halfLocked(t *testing.T, path string) {
	t.Helper()
	report, err := json.Marshal(wire.Report{Layers: []wire.Layer{{Name: "seccomp", On: true}, {Name: "landlock", Detail: "function not implemented"}}})
	if err != nil {
		t.Fatal(err)
	}
	var frame bytes.Buffer
	if err := wire.Write(&frame, wire.Frame{Kind: wire.Ready, Payload: report}); err != nil {
		t.Fatal(err)
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".ready", frame.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+cat+" "+path+".ready\nexec "+cat+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestStrictIsolates_RefusesToRunWithoutALayer(t *testing.T) {
	for _, strict := range []string{"true", "false"} {
		t.Run(strict, func(t *testing.T) {
			r := newReal(t, "XDG_RUNTIME_DIR=/nonexistent")
			r.write(filepath.Join(r.home, "config", "config.toml"), "listen = \"127.0.0.1:0\"\nstrict_isolates = "+strict+"\n")
			halfLocked(t, filepath.Join(r.bin, "sophia-isolate"))
			r.foreground()
			_, report := r.output("doctor", "--json")
			_, states := reportOf(t, report)
			if strict == "false" {
				if states["isolates"] != doctor.OK || states["isolates.landlock"] != doctor.Warn || states["isolates.seccomp"] != doctor.OK {
					t.Errorf("tolerant:\n%s", report)
				}
				return
			}
			if states["isolates"] != doctor.Fail || !strings.Contains(report, "landlock") {
				t.Errorf("strict:\n%s", report)
			}
			exit, out := r.output("tool", "call", "sophia.execute_code", `{"code":"1+1"}`, "--json")
			if exit == 0 || !strings.Contains(out, "isolate_layer_missing") || !strings.Contains(out, "strict_isolates = false") {
				t.Errorf("a script ran, or nobody says why not: exit %d\n%s", exit, out)
			}
		})
	}
}
