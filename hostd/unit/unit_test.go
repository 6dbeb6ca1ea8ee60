package unit_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"

	"sophia/hostd/unit"
	"sophia/messages"
	"sophia/messages/problem"
	"sophia/testkit/fakeharness"
	"sophia/testkit/usermanager"
)

// The host of these tests is the fake harness: it takes its two arguments for
// steps, so a script stands in for the manifest's path.
type launch struct {
	manager *unit.Manager
	systemd *usermanager.Manager
	folder  string
}

func setup(t *testing.T) *launch {
	t.Helper()
	systemd := usermanager.Start(t)
	m := unit.New(systemd.Getenv)
	t.Cleanup(m.Close)
	folder := filepath.Join(systemd.RuntimeDir, "launch")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return &launch{m, systemd, folder}
}

func (l *launch) mark() unit.Mark { return unit.Mark{Launch: "lp-0a1b2c", Folder: l.folder} }

// start runs the steps as the host's first argument's script: a small file
// that the shell reads, because ExecStart has exactly three words.
func (l *launch) start(t *testing.T, change func(*unit.Spec), steps ...string) messages.UnitRef {
	t.Helper()
	ref, err := l.manager.Start(t.Context(), l.spec(t, change, steps...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		l.manager.End(ctx, ref, 0)
	})
	return ref
}

func (l *launch) spec(t *testing.T, change func(*unit.Spec), steps ...string) unit.Spec {
	t.Helper()
	script := filepath.Join(l.systemd.RuntimeDir, "host")
	text := "#!/bin/sh\nexport SOPHIA_LAUNCH=lp-0a1b2c\nexec " + fakeharness.Build(t)
	for _, s := range steps {
		text += " '" + s + "'"
	}
	if err := os.WriteFile(script, []byte(text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := unit.Spec{Launch: "lp-0a1b2c", Host: script, Manifest: "/nowhere/manifest.json", Digest: strings.Repeat("0", 64), Confine: unit.Standard}
	if change != nil {
		change(&s)
	}
	return s
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// pidOf waits until the step pid:PATH has written the file.
func pidOf(t *testing.T, path string) string {
	t.Helper()
	ctx := within(t, 20*time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(path); err == nil {
			return string(b)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s was never written", path)
		case <-tick.C:
		}
	}
}

func TestUnit_HasThePropertiesOfTheSpecification(t *testing.T) {
	l := setup(t)
	startDaemon(t, l)
	l.start(t, func(s *unit.Spec) { s.Daemon = unit.DaemonUnit }, "forever")
	name := unit.Name("lp-0a1b2c")
	for property, want := range map[string]string{
		"Type": "exec", "Restart": "no", "KillMode": "control-group", "TimeoutStopUSec": "10s",
		"BindsTo": unit.DaemonUnit, "CollectMode": "inactive-or-failed", "UMask": "0077",
		"LimitCORE": "0", "LimitCORESoft": "0", "NoNewPrivileges": "yes", "Transient": "yes",
	} {
		out, err := l.systemd.Command("systemctl", "--user", "show", name, "-p", property, "--value").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", property, got, want, err)
		}
	}
	out, _ := l.systemd.Command("systemctl", "--user", "show", name, "-p", "After", "--value").Output()
	if !strings.Contains(string(out), unit.DaemonUnit) {
		t.Errorf("After is %s", out)
	}
	out, _ = l.systemd.Command("systemctl", "--user", "show", name, "-p", "ExecStart", "--value").Output()
	want := "argv[]=" + filepath.Join(l.systemd.RuntimeDir, "host") + " /nowhere/manifest.json " + strings.Repeat("0", 64) + " ;"
	if !strings.Contains(string(out), want) {
		t.Errorf("ExecStart is %s, want %s", out, want)
	}
}

func startDaemon(t *testing.T, l *launch) {
	t.Helper()
	out, err := l.systemd.Command("systemd-run", "--user", "--unit="+unit.DaemonUnit, "-p", "Type=exec", "sleep", "1000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

func TestUnit_EndsWithTheDaemon(t *testing.T) {
	l := setup(t)
	startDaemon(t, l)
	ref := l.start(t, func(s *unit.Spec) { s.Daemon = unit.DaemonUnit }, "daemon:forever", "pid:"+l.folder+"/pid", "forever")
	pidOf(t, l.folder+"/pid")
	if out, err := l.systemd.Command("systemctl", "--user", "kill", "-s", "KILL", unit.DaemonUnit).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if alive, err := unit.WaitQuiet(within(t, 20*time.Second), ref, l.mark(), nil); err != nil {
		t.Errorf("after kill -9 of the daemon: %v %v", alive, err)
	}
}

func TestUnit_ReferenceIsValidated(t *testing.T) {
	l := setup(t)
	ref := l.start(t, nil, "forever")
	if want := l.systemd.Group + "/app.slice/" + ref.Name; ref.ControlGroup != want {
		t.Errorf("control group %q, want %q", ref.ControlGroup, want)
	}
	if len(ref.InvocationID) != 32 {
		t.Errorf("invocation %q", ref.InvocationID)
	}
	for _, bad := range []messages.UnitRef{
		{Name: ref.Name, InvocationID: ref.InvocationID, ControlGroup: "/"},
		{Name: ref.Name, InvocationID: ref.InvocationID, ControlGroup: "/x/../" + ref.Name},
		{Name: ref.Name, InvocationID: ref.InvocationID},
		{Name: "other.service", InvocationID: ref.InvocationID, ControlGroup: ref.ControlGroup},
		{Name: ref.Name, ControlGroup: ref.ControlGroup},
	} {
		if _, err := unit.OpenGroup(bad); problem.CodeOf(err) != "control_group_unreadable" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	_, err := l.manager.Start(t.Context(), l.spec(t, nil, "forever"))
	if problem.CodeOf(err) != "unit_exists" {
		t.Errorf("a second start: %v", err)
	}
	_, err = l.manager.Reference(t.Context(), unit.Name("lp-ffffff"))
	if problem.CodeOf(err) != "unit_missing" {
		t.Errorf("a unit that is not there: %v", err)
	}
}

func TestUnit_StartSaysWhyItFailed(t *testing.T) {
	l := setup(t)
	_, err := l.manager.Start(t.Context(), l.spec(t, func(s *unit.Spec) { s.Host = "/nowhere/host" }))
	if problem.CodeOf(err) != "unit_start_failed" {
		t.Errorf("got %v", err)
	}
	none := unit.New(func(string) string { return "/nowhere" })
	if err := none.Ping(t.Context()); problem.CodeOf(err) != "systemd_unavailable" {
		t.Errorf("without systemd: %v", err)
	}
}

func TestUnit_WatchTellsTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		steps []string
		code  int
		sig   int
	}{
		"fast exit": {[]string{"exit:7"}, 7, 0},
		"success":   {[]string{"exit:0"}, 0, 0},
		"signal":    {[]string{"kill:9"}, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			l := setup(t)
			ref := l.start(t, nil, c.steps...)
			last := lastState(t, l.manager.Watch(within(t, 20*time.Second), ref))
			if !last.Over() || last.ExitCode != c.code || last.Signal != c.sig || last.InvocationID != ref.InvocationID {
				t.Errorf("ended with %+v", last)
			}
			if alive, err := unit.WaitQuiet(within(t, 10*time.Second), ref, l.mark(), nil); err != nil {
				t.Errorf("%v %v", alive, err)
			}
		})
	}
}

func lastState(t *testing.T, states <-chan unit.State) (last unit.State) {
	t.Helper()
	n := 0
	for s := range states {
		last, n = s, n+1
	}
	if n == 0 {
		t.Error("Watch told nothing")
	}
	return last
}

func TestUnit_WatchOutlivesTheBusAndTheManager(t *testing.T) {
	l := setup(t)
	ref := l.start(t, nil, "pid:"+l.folder+"/pid", "forever")
	pidOf(t, l.folder+"/pid")
	states := l.manager.Watch(within(t, 40*time.Second), ref)
	if s := <-states; s.Active != "active" {
		t.Fatalf("first %v", s)
	}
	if err := l.systemd.StopBus(within(t, 10*time.Second)); err != nil { // the direct socket must do
		t.Fatal(err)
	}
	if err := l.manager.Ping(within(t, 10*time.Second)); err != nil {
		t.Fatalf("after the bus was lost: %v", err)
	}
	if err := l.systemd.StartBus(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := l.systemd.Reexec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.manager.Stop(within(t, 20*time.Second), ref); err != nil {
		t.Fatal(err)
	}
	if last := lastState(t, states); !last.Over() {
		t.Errorf("last state %v", last)
	}
}

func TestUnit_EndsWithoutSystemd(t *testing.T) {
	l := setup(t)
	ref := l.start(t, nil, "ignore-term", "pid:"+l.folder+"/pid", "forever")
	pidOf(t, l.folder+"/pid")
	states := l.manager.Watch(within(t, 40*time.Second), ref)
	<-states
	l.systemd.KillManager()
	if err := l.manager.End(within(t, 20*time.Second), ref, 100*time.Millisecond); err != nil {
		t.Errorf("the control group was not killed: %v", err)
	}
	if last := lastState(t, states); last.Active != unit.Gone {
		t.Errorf("last state %v", last)
	}
	if alive, err := unit.Quiet(ref, l.mark()); err != nil || len(alive) > 0 {
		t.Errorf("alive %v, %v", alive, err)
	}
}

func TestUnit_KillsWhatIgnoresTheStop(t *testing.T) {
	l := setup(t)
	ref := l.start(t, nil, "ignore-term", "daemon:ignore-term;forever", "setsid:ignore-term;forever", "pid:"+l.folder+"/pid", "forever")
	pidOf(t, l.folder+"/pid")
	if alive, err := unit.Quiet(ref, l.mark()); err != nil || len(alive) < 3 {
		t.Errorf("before the end: %v %v", alive, err)
	}
	if err := l.manager.End(within(t, 20*time.Second), ref, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if alive, err := unit.WaitQuiet(within(t, 5*time.Second), ref, l.mark(), nil); err != nil {
		t.Errorf("%v %v", alive, err)
	}
}

// Each of these left the control group: the empty group alone is no proof.
func TestQuiet_SeesWhoLeftTheControlGroup(t *testing.T) {
	for name, step := range map[string]string{
		"marker":            "daemon:join:%G;pid:%P;forever",
		"scrubbed but open": "scrubbed:join:%G;hold:%F/overlay;pid:%P;forever",
		"scrubbed argument": "scrubbed:join:%G;pid:%F/p;forever;",
	} {
		t.Run(name, func(t *testing.T) {
			l := setup(t)
			if err := os.Mkdir(l.folder+"/overlay", 0o700); err != nil {
				t.Fatal(err)
			}
			pid := filepath.Join(l.systemd.RuntimeDir, "pid")
			if strings.Contains(step, "%F/p") {
				pid = l.folder + "/p"
			}
			step := strings.NewReplacer("%G", filepath.Join(l.systemd.GroupDir, "init.scope"), "%P", pid, "%F", l.folder).Replace(step)
			ref := l.start(t, nil, step, "forever")
			escaped := pidOf(t, pid)
			if err := l.manager.End(within(t, 20*time.Second), ref, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var told []unit.Survivor
			alive, err := unit.WaitQuiet(ctx, ref, l.mark(), func(s []unit.Survivor) { told = s; cancel() })
			if problem.CodeOf(err) != "unit_not_quiet" || len(alive) != 1 || len(told) != 1 {
				t.Fatalf("alive %v, told %v, %v", alive, told, err)
			}
			if got := alive[0]; escaped != itoa(got.PID) || got.Why == "" || !strings.Contains(got.Command, "fake-harness") {
				t.Errorf("survivor %+v, want process %s", got, escaped)
			}
			// The gate keeps watching and finishes when it is quiet.
			done := make(chan error, 1)
			seen := make(chan struct{}, 8)
			go func() {
				_, err := unit.WaitQuiet(within(t, 20*time.Second), ref, l.mark(), func([]unit.Survivor) { seen <- struct{}{} })
				done <- err
			}()
			<-seen
			p, _ := os.FindProcess(alive[0].PID)
			p.Kill()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// What can't be looked at is stopped all the same.
func TestUnit_EndStopsAlsoWhereTheGroupCanNotBeRead(t *testing.T) {
	l := setup(t)
	ref := l.start(t, nil, "forever")
	blind := ref
	blind.ControlGroup = "/elsewhere" // as where no cgroup2 tree is mounted
	if err := l.manager.End(within(t, 30*time.Second), blind, 20*time.Second); problem.CodeOf(err) != "control_group_unreadable" {
		t.Errorf("%v, want that the end is not proven", err)
	}
	if st, err := l.manager.Inspect(within(t, 10*time.Second), ref.Name); err != nil || !st.Over() {
		t.Errorf("the unit: %v, %v", st, err)
	}
}

func TestUnit_StrictConfinementTakesEffect(t *testing.T) {
	l := setup(t)
	bin := filepath.Dir(fakeharness.Build(t))
	host := filepath.Join(l.systemd.RuntimeDir, "host")
	home, _ := os.UserHomeDir()
	spec := l.spec(t, func(s *unit.Spec) {
		s.Confine = unit.Strict
		s.ReadWrite = []string{l.folder}
		s.ReadOnly = []string{bin, host}
	})
	script := `#!/bin/sh
r=` + l.folder + `/result
say() { echo "$1" >>$r; }
touch ` + host + ` 2>/dev/null && say "programs writable"
touch /usr/probe 2>/dev/null && { rm /usr/probe; say "system writable"; }
[ "$(ls -A ` + home + ` | grep -v '^.cache$')" ] && say "home visible: $(ls -A ` + home + `)"
[ "$(ls -A /tmp)" ] && say "tmp shared: $(ls /tmp)"
for g in /sys/fs/cgroup /sys/fs/cgroup/unified; do sh -c "echo \$\$ >$g/cgroup.procs" 2>/dev/null && say "left the control group"; done
for g in ` + l.systemd.GroupDir + `/init.scope/cgroup.procs; do sh -c "echo \$\$ >$g" 2>/dev/null && say "joined another control group"; done
systemd-run --user true 2>/dev/null && say "started another unit"
grep -q '^NoNewPrivs:.1' /proc/self/status || say "can gain privileges"
say done
sleep 1000
`
	if err := os.WriteFile(host, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join("/tmp", "sophia-strict-probe")
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(marker)
	ref, err := l.manager.Start(t.Context(), spec)
	if err != nil {
		log, _ := os.ReadFile(l.systemd.RuntimeDir + "/manager.log")
		t.Fatalf("%v\n%s", err, log)
	}
	defer l.manager.End(context.Background(), ref, 0)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx := within(t, 20*time.Second)
	for {
		b, _ := os.ReadFile(l.folder + "/result")
		if strings.HasSuffix(string(b), "done\n") {
			if string(b) != "done\n" {
				t.Errorf("inside the confinement:\n%s", b)
			}
			return
		}
		select {
		case <-ctx.Done():
			st, _ := l.manager.Inspect(context.Background(), ref.Name)
			log, _ := os.ReadFile(l.systemd.RuntimeDir + "/manager.log")
			t.Fatalf("the probe did not finish: %q, %v\n%s", b, st, log)
		case <-tick.C:
		}
	}
}

func TestUnit_OwnUnit(t *testing.T) {
	l := setup(t)
	if name, err := l.manager.OwnUnit(t.Context()); err != nil || name != "" {
		t.Errorf("outside any unit: %q, %v", name, err)
	}
}

func TestSpec_RefusesWhatIsIncomplete(t *testing.T) {
	good := unit.Spec{Launch: "lp-0a1b2c", Host: "/h", Manifest: "/m", Digest: strings.Repeat("0", 64), Confine: unit.Strict, ReadWrite: []string{"/w"}}
	if _, err := good.Properties(); err != nil {
		t.Fatal(err)
	}
	for code, change := range map[string]func(*unit.Spec){
		"unit_spec_invalid launch": func(s *unit.Spec) { s.Launch = "lp-x y" },
		"unit_spec_invalid host":   func(s *unit.Spec) { s.Host = "host" },
		"unit_spec_invalid digest": func(s *unit.Spec) { s.Digest = "" },
		"unit_spec_invalid daemon": func(s *unit.Spec) { s.Daemon = "x\ny.service" },
		"unit_spec_invalid bind":   func(s *unit.Spec) { s.ReadOnly = []string{"../x"} },
		"confinement_unknown":      func(s *unit.Spec) { s.Confine = "tight" },
	} {
		s := good
		change(&s)
		_, err := s.Properties()
		if want, _, _ := strings.Cut(code, " "); problem.CodeOf(err) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
	var props []sd.Property
	props, _ = good.Properties()
	for _, p := range props {
		if p.Name == "BindsTo" {
			t.Error("bound to no unit")
		}
	}
}
