package doctor_test

import (
	"strings"
	"testing"
	"time"

	"sophia/hostd/doctor"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// well is a daemon that lacks nothing.
func well() doctor.Daemon {
	return doctor.Daemon{
		PID: 7, Version: "1.0", Now: noon, Unit: "sophia-daemon.service", MCP: "http://127.0.0.1:1/mcp", Trays: 1, Approval: 5 * time.Minute,
		Isolates:  doctor.Isolates{Idle: 2, Engine: "10.9", Layers: []doctor.Layer{{Name: "seccomp", On: true}, {Name: "landlock", On: true, Detail: "version 6"}}},
		TypeCheck: &doctor.TypeCheck{On: true, Detail: "tsgo 7.0"},
		Harnesses: []doctor.Harness{{ID: "codex", Title: "Codex", Pinned: "codex-cli 0.147.0", Adopted: true, SHA256: "0123456789abcdef"}},
		Store:     doctor.Store{Head: 9, Checked: 9, Last: noon.Add(-time.Minute)},
	}
}

func find(checks []doctor.Check, name string) (doctor.Check, bool) {
	for _, c := range checks {
		if c.Name == name {
			return c, true
		}
	}
	return doctor.Check{}, false
}

func TestDaemon_WellIsAllOK(t *testing.T) {
	report := doctor.NewReport(doctor.Judge(well(), true))
	if report.Fail != 0 || report.Warn != 0 || report.OK != len(report.Checks) || report.OK < 10 {
		t.Errorf("%+v", report)
	}
}

// Each thing that can be wrong with a daemon comes out in its own check, with
// its cost and what to do, and in no other.
func TestDaemon_EachFaultIsItsOwnCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*doctor.Daemon)
		systemd bool
		check   string
		state   doctor.State
		detail  string
	}{
		"no unit":    {func(d *doctor.Daemon) { d.Unit, d.Launching = "", "it is in no unit" }, true, "daemon.unit", doctor.Warn, "no agent can be launched: it is in no unit"},
		"no systemd": {func(d *doctor.Daemon) { d.Unit, d.Launching = "", "nobody answers" }, false, "daemon.unit", doctor.Warn, "in the foreground"},
		"a restart": {func(d *doctor.Daemon) {
			d.Restarts = []doctor.Restarted{{Path: "sophiad/writer", State: "up", Times: 2}}
		}, true, "supervision", doctor.Warn, "sophiad/writer restarted 2×"},
		"a part down": {func(d *doctor.Daemon) {
			d.Restarts = []doctor.Restarted{{Path: "sophiad/x", State: "backoff", Times: 5}}
		}, true, "supervision", doctor.Warn, "sophiad/x is backoff"},
		"a damaged store":     {func(d *doctor.Daemon) { d.Store.Problems = []string{"a", "b", "c", "d"} }, true, "store", doctor.Fail, "a; b; c; and 1 more"},
		"clock set back":      {func(d *doctor.Daemon) { d.Store.Last = noon.Add(time.Hour) }, true, "clock", doctor.Fail, "set back by 1h0m0s"},
		"clock never set":     {func(d *doctor.Daemon) { d.Now = time.Unix(0, 0).UTC(); d.Store.Last = time.Time{} }, true, "clock", doctor.Fail, "1970-01-01"},
		"no isolates":         {func(d *doctor.Daemon) { d.Isolates.Idle, d.Isolates.Problem, d.Isolates.Failures = 0, "it ended", 3 }, true, "isolates", doctor.Fail, "after 3 tries: it ended"},
		"shaky isolates":      {func(d *doctor.Daemon) { d.Isolates.Problem, d.Isolates.Failures = "it ended", 1 }, true, "isolates", doctor.Warn, "it ended"},
		"layer off":           {func(d *doctor.Daemon) { d.Isolates.Layers[1] = doctor.Layer{Name: "landlock", Detail: "ENOSYS"} }, true, "isolates.landlock", doctor.Warn, "off (ENOSYS): files"},
		"layer off, strict":   {func(d *doctor.Daemon) { d.Isolates.Strict = true; d.Isolates.Layers[0].On = false }, true, "isolates.seccomp", doctor.Fail, "every system call"},
		"an unknown layer":    {func(d *doctor.Daemon) { d.Isolates.Layers[0] = doctor.Layer{Name: "moat"} }, true, "isolates.moat", doctor.Warn, "other layers alone"},
		"no type check":       {func(d *doctor.Daemon) { d.TypeCheck = &doctor.TypeCheck{Detail: "tsgo was not found"} }, true, "type_check", doctor.Warn, "tsgo was not found"},
		"a changed harness":   {func(d *doctor.Daemon) { d.Harnesses[0].Problem, d.Harnesses[0].Mend = "it is another", "adopt it" }, true, "harness.codex", doctor.Fail, "it is another"},
		"no harness":          {func(d *doctor.Daemon) { d.Harnesses[0].Adopted = false }, true, "harnesses", doctor.Warn, "no agent can be launched"},
		"a tray anywhere":     {func(d *doctor.Daemon) { d.Anywhere = "this machine has no logind" }, true, "tray.presence", doctor.Warn, "no logind: an unconfined agent"},
		"no tray":             {func(d *doctor.Daemon) { d.Trays = 0 }, true, "tray", doctor.Warn, "refused after 5m0s"},
		"a launch that lives": {func(d *doctor.Daemon) { d.Unquiet = []doctor.Unquiet{{Launch: "lp-1", Reason: "pid 9"}} }, true, "launch.lp-1", doctor.Warn, "pid 9"},
	} {
		t.Run(name, func(t *testing.T) {
			d := well()
			c.change(&d)
			checks := doctor.Judge(d, c.systemd)
			got, there := find(checks, c.check)
			if !there || got.State != c.state || !strings.Contains(got.Detail, c.detail) || got.Mend == "" {
				t.Errorf("%+v", got)
			}
			for _, other := range checks {
				if other.Name != c.check && other.State != doctor.OK {
					t.Errorf("also %+v", other)
				}
			}
		})
	}
}

func TestHost_EachFaultIsItsOwnCheck(t *testing.T) {
	yes, no := true, false
	one := func(c doctor.Check) []doctor.Check { return []doctor.Check{c} }
	for name, c := range map[string]struct {
		checks []doctor.Check
		check  string
		state  doctor.State
		detail string
	}{
		"folder":           {doctor.Folders([]doctor.Folder{{Name: "data", Path: "/d"}}), "folder.data", doctor.OK, "/d"},
		"folder missing":   {doctor.Folders([]doctor.Folder{{Name: "data", Path: "/d", Missing: true}}), "folder.data", doctor.Warn, "not there"},
		"folder open":      {doctor.Folders([]doctor.Folder{{Name: "data", Path: "/d", Problem: "it has mode 0755", Mend: "chmod"}}), "folder.data", doctor.Fail, "0755"},
		"short path":       {one(doctor.SocketPath("/run/user/1000/sophia")), "socket_paths", doctor.OK, "of 107"},
		"long path":        {one(doctor.SocketPath("/" + strings.Repeat("x", 70))), "socket_paths", doctor.Fail, "108 bytes"},
		"no key":           {one(doctor.OwnerKey(doctor.Key{Path: "/k", Missing: true})), "owner_key", doctor.Warn, "/k"},
		"an open key":      {one(doctor.OwnerKey(doctor.Key{Path: "/k", Problem: "mode 0644", Mend: "chmod"})), "owner_key", doctor.Fail, "0644"},
		"defaults":         {one(doctor.Config("/c", true, "")), "config", doctor.OK, "defaults"},
		"bad config":       {one(doctor.Config("/c", false, "line 3")), "config", doctor.Fail, "line 3"},
		"program":          {doctor.Programs("/b", []doctor.Program{{Name: "sophia-host", SHA256: "aa"}}, nil), "program.sophia-host", doctor.OK, "aa"},
		"program missing":  {doctor.Programs("/b", []doctor.Program{{Name: "sophia-host", Problem: "it is not there"}}, nil), "program.sophia-host", doctor.Fail, "no agent can be launched"},
		"program rebuilt":  {doctor.Programs("/b", []doctor.Program{{Name: "sophia-tray", SHA256: "aa"}}, []doctor.Program{{Name: "sophia-tray", SHA256: "bb"}}), "program.sophia-tray", doctor.Warn, "another build"},
		"no systemd":       {doctor.Manager(doctor.Systemd{Problem: "nobody answers"}), "systemd", doctor.Warn, "no agent can be launched"},
		"no bus":           {doctor.Manager(doctor.Systemd{Version: "252", Linger: &yes}), "dbus", doctor.Warn, "directly"},
		"no lingering":     {doctor.Manager(doctor.Systemd{Version: "252", Bus: true, Linger: &no, User: "zoe"}), "lingering", doctor.Warn, "log out"},
		"lingering":        {doctor.Manager(doctor.Systemd{Version: "252", Bus: true, Linger: &yes}), "lingering", doctor.OK, "stays"},
		"who knows":        {doctor.Manager(doctor.Systemd{Version: "252", Bus: true}), "lingering", doctor.Warn, "can't be told"},
		"no cgroup2":       {one(doctor.ControlGroups(doctor.Groups{Problem: "x"})), "control_groups", doctor.Fail, "proven"},
		"cgroup2, empty":   {one(doctor.ControlGroups(doctor.Groups{Mount: "/c", Empty: true})), "control_groups", doctor.OK, "/c"},
		"hidden events":    {one(doctor.ControlGroups(doctor.Groups{Mount: "/c", Problem: "EACCES"})), "control_groups", doctor.Fail, "EACCES"},
		"no cgroup.kill":   {one(doctor.ControlGroups(doctor.Groups{Mount: "/c", Events: true})), "control_groups", doctor.Warn, "one by one"},
		"cgroup2":          {one(doctor.ControlGroups(doctor.Groups{Mount: "/c", Events: true, Kill: true})), "control_groups", doctor.OK, "/c"},
		"no unit-root":     {one(doctor.Strict("/run/x is missing")), "confine.strict", doctor.Warn, "/run/x"},
		"unit-root":        {one(doctor.Strict("")), "confine.strict", doctor.OK, "of its own"},
		"disk full":        {doctor.Disks([]doctor.Disk{{Name: "data", Path: "/d", Free: 1 << 20}}), "disk.data", doctor.Fail, "1.0 MiB"},
		"disk low":         {doctor.Disks([]doctor.Disk{{Name: "data", Path: "/d", Free: 500 << 20}}), "disk.data", doctor.Warn, "500.0 MiB"},
		"disk":             {doctor.Disks([]doctor.Disk{{Name: "data", Path: "/d", Free: 5 << 40}}), "disk.data", doctor.OK, "5.0 TiB"},
		"small runtime":    {doctor.Disks([]doctor.Disk{{Name: "runtime", Path: "/r", Free: 100 << 20}}), "disk.runtime", doctor.OK, "100.0 MiB"},
		"read-only disk":   {doctor.Disks([]doctor.Disk{{Name: "data", Path: "/d", Free: 5 << 40, ReadOnly: true}}), "disk.data", doctor.Fail, "read-only"},
		"address taken":    {one(doctor.Listening(doctor.Address{Listen: "h:1", Problem: "in use"})), "listen", doctor.Fail, "in use"},
		"address free":     {one(doctor.Listening(doctor.Address{Listen: "h:1"})), "listen", doctor.OK, "free"},
		"address answers":  {one(doctor.Listening(doctor.Address{Listen: "h:1", Running: true, Answers: true})), "listen", doctor.OK, "answers"},
		"address is mute":  {one(doctor.Listening(doctor.Address{Listen: "h:1", Running: true, Problem: "refused"})), "listen", doctor.Fail, "refused"},
		"nobody at home":   {one(doctor.Unreachable("no daemon answers", "")), "daemon", doctor.Fail, "no daemon answers"},
		"an old kernel":    {doctor.KernelFeatures(doctor.Kernel{Release: "5.15"}), "kernel.landlock", doctor.Warn, "missing"},
		"an older kernel":  {doctor.KernelFeatures(doctor.Kernel{Release: "5.15"}), "kernel.so_peerpidfd", doctor.Warn, "/proc"},
		"landlock, some":   {doctor.KernelFeatures(doctor.Kernel{Landlock: 1}), "kernel.landlock", doctor.Warn, "version 1"},
		"landlock, all":    {doctor.KernelFeatures(doctor.Kernel{Landlock: 7}), "kernel.landlock", doctor.OK, "version 7"},
		"no read leases":   {doctor.KernelFeatures(doctor.Kernel{LeaseProblem: "EINVAL"}), "kernel.read_leases", doctor.Warn, "EINVAL"},
		"a modern feature": {doctor.KernelFeatures(doctor.Kernel{MDWE: true}), "kernel.mdwe", doctor.OK, "there"},
	} {
		t.Run(name, func(t *testing.T) {
			got, there := find(c.checks, c.check)
			if !there || got.State != c.state || !strings.Contains(got.Detail, c.detail) || (got.State == doctor.OK) != (got.Mend == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestReport_Counts(t *testing.T) {
	r := doctor.NewReport([]doctor.Check{{State: doctor.OK}, {State: doctor.Warn}, {State: doctor.Warn}, {State: doctor.Fail}})
	if r.OK != 1 || r.Warn != 2 || r.Fail != 1 {
		t.Errorf("%+v", r)
	}
	if r := doctor.NewReport(nil); r.Checks == nil {
		t.Error("an empty report is null in JSON")
	}
}
