package harness_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness"
	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

var static = harness.Rules{Linking: contracts.Static}

func TestHarness_AcceptsAStaticProgramAndSaysWhatItIs(t *testing.T) {
	path := compile(t, saysVersion, "-static")
	h := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	defer h.Close()
	id := h.Identity()
	st := must[os.FileInfo](t)(os.Stat(path))
	if id.Path != path || id.Size != st.Size() || len(id.SHA256) != 64 || id.Inode == 0 || id.Mode != 0o755 {
		t.Errorf("identity %+v", id)
	}
	if h.Lease() != nil {
		t.Errorf("no read lease: %v", h.Lease())
	}
	if err := h.Compare(id); err != nil {
		t.Error(err)
	}
	if err := h.Recheck(); err != nil {
		t.Error(err)
	}
}

func TestHarness_RefusesByNature(t *testing.T) {
	for name, c := range map[string]struct {
		code  string
		spoil func(t *testing.T, path string) string // returns the path to hold
	}{
		"missing": {"managed_harness_missing", func(t *testing.T, p string) string { return p + "-not-there" }},
		"symlink": {"managed_harness_symlink", func(t *testing.T, p string) string {
			fatal(t, os.Symlink(p, p+"-link"))
			return p + "-link"
		}},
		"folder": {"managed_harness_not_regular", func(t *testing.T, p string) string { return filepath.Dir(p) }},
		"fifo": {"managed_harness_not_regular", func(t *testing.T, p string) string {
			fatal(t, unix.Mkfifo(p+"-fifo", 0o700))
			return p + "-fifo"
		}},
		"hard link": {"managed_harness_hardlinked", func(t *testing.T, p string) string {
			fatal(t, os.Link(p, p+"-second"))
			return p
		}},
		"group-writable": {"managed_harness_writable", func(t *testing.T, p string) string {
			fatal(t, os.Chmod(p, 0o775))
			return p
		}},
		"world-writable": {"managed_harness_writable", func(t *testing.T, p string) string {
			fatal(t, os.Chmod(p, 0o757))
			return p
		}},
		"set-user-id": {"managed_harness_not_regular", func(t *testing.T, p string) string {
			fatal(t, os.Chmod(p, 0o755|os.ModeSetuid))
			return p
		}},
		"open writer": {"managed_harness_open_for_writing", func(t *testing.T, p string) string {
			f := must[*os.File](t)(os.OpenFile(p, os.O_WRONLY, 0))
			t.Cleanup(func() { f.Close() })
			return p
		}},
		"truncated": {"managed_harness_not_elf", func(t *testing.T, p string) string {
			fatal(t, os.Truncate(p, 5000))
			return p
		}},
		"script": {"managed_harness_not_elf", func(t *testing.T, p string) string {
			fatal(t, os.WriteFile(p, []byte("#!/bin/sh\nexec true # and so on, longer than an ELF header is\n"), 0o755))
			return p
		}},
		"empty": {"managed_harness_not_elf", func(t *testing.T, p string) string {
			fatal(t, os.Truncate(p, 0))
			return p
		}},
		"wrong machine": {"managed_harness_wrong_machine", func(t *testing.T, p string) string {
			f := must[*os.File](t)(os.OpenFile(p, os.O_WRONLY, 0))
			defer f.Close()
			must[int](t)(f.WriteAt([]byte{0xf3, 0}, 18)) // e_machine: RISC-V
			return p
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.spoil(t, compile(t, saysVersion, "-static"))
			_, err := harness.Hold(t.Context(), path, static)
			refused(t, err, c.code)
			if problem.Of(err).Hint == "" {
				t.Error("it does not say what to do")
			}
		})
	}
}

func TestHarness_RefusesForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		// An ordinary user can't give files away: a program of root's is the
		// foreign one.
		_, err := harness.Hold(t.Context(), "/bin/sh", harness.Rules{Linking: contracts.SystemLoader})
		if code := problem.CodeOf(err); code != "managed_harness_foreign_owner" && code != "managed_harness_symlink" {
			t.Fatal(err)
		}
		return
	}
	path := compile(t, saysVersion, "-static")
	fatal(t, os.Chown(path, 12345, 12345))
	_, err := harness.Hold(t.Context(), path, static)
	refused(t, err, "managed_harness_foreign_owner")
}

func TestHarness_RefusesByLinking(t *testing.T) {
	loader := harness.Rules{Linking: contracts.SystemLoader}
	for name, c := range map[string]struct {
		rules harness.Rules
		code  string // "" is accepted
		flags []string
	}{
		"static where static is asked":       {static, "", []string{"-static"}},
		"static-pie where static is asked":   {static, "", []string{"-static-pie"}},
		"dynamic where static is asked":      {static, "managed_harness_not_static", nil},
		"the system's loader":                {loader, "", nil},
		"RPATH":                              {loader, "managed_harness_library_path", []string{"-Wl,--disable-new-dtags,-rpath,/opt/evil"}},
		"RUNPATH":                            {loader, "managed_harness_library_path", []string{"-Wl,--enable-new-dtags,-rpath,$ORIGIN"}},
		"RUNPATH in a static-pie":            {static, "managed_harness_library_path", []string{"-static-pie", "-Wl,--enable-new-dtags,-rpath,/opt/evil"}},
		"DT_AUDIT":                           {loader, "managed_harness_loader_audit", []string{"-Wl,--audit=/opt/evil.so"}},
		"DT_DEPAUDIT":                        {loader, "managed_harness_loader_audit", []string{"-Wl,--depaudit=/opt/evil.so"}},
		"foreign interpreter":                {loader, "managed_harness_foreign_interpreter", []string{"-Wl,--dynamic-linker=/opt/evil/ld.so"}},
		"interpreter that only begins right": {loader, "managed_harness_foreign_interpreter", []string{"-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2x"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := harness.Hold(t.Context(), compile(t, saysVersion, c.flags...), c.rules)
			if c.code == "" {
				fatal(t, err)
				h.Close()
				return
			}
			refused(t, err, c.code)
		})
	}
}

func TestHarness_RefusesALibraryByPath(t *testing.T) {
	// A library without a SONAME, linked by its path, is needed by that path.
	lib := compile(t, "int f(void){return 1;}\n", "-shared", "-fPIC")
	path := compile(t, "int f(void); int main(void){return f();}\n", lib)
	_, err := harness.Hold(t.Context(), path, harness.Rules{Linking: contracts.SystemLoader})
	refused(t, err, "managed_harness_library_path")
}

// Section headers are what readelf shows and what the kernel ignores.
func TestHarness_RPathIsSeenWithoutSections(t *testing.T) {
	path := compile(t, saysVersion, "-Wl,--enable-new-dtags,-rpath,/opt/evil")
	f := must[*os.File](t)(os.OpenFile(path, os.O_RDWR, 0))
	must[int](t)(f.WriteAt(make([]byte, 8), 40)) // e_shoff
	must[int](t)(f.WriteAt(make([]byte, 4), 60)) // e_shnum, e_shstrndx
	fatal(t, f.Close())
	_, err := harness.Hold(t.Context(), path, harness.Rules{Linking: contracts.SystemLoader})
	refused(t, err, "managed_harness_library_path")
}

func TestHarness_ComparesEveryField(t *testing.T) {
	h := must[*harness.Held](t)(harness.Hold(t.Context(), compile(t, saysVersion, "-static"), static))
	defer h.Close()
	for field, drift := range map[string]func() error{
		"path":   func() error { w := h.Identity(); w.Path += "x"; return h.Compare(w) },
		"sha256": func() error { w := h.Identity(); w.SHA256 = strings.Repeat("0", 64); return h.Compare(w) },
		"device": func() error { w := h.Identity(); w.Device++; return h.Compare(w) },
		"inode":  func() error { w := h.Identity(); w.Inode++; return h.Compare(w) },
		"size":   func() error { w := h.Identity(); w.Size++; return h.Compare(w) },
		"mode":   func() error { w := h.Identity(); w.Mode = 0o700; return h.Compare(w) },
	} {
		err := drift()
		refused(t, err, "managed_harness_identity_changed")
		if !strings.Contains(err.Error(), "its "+field+" is") {
			t.Errorf("does not name %s: %v", field, err)
		}
	}
}

func TestHarness_SameSizeOtherBytes(t *testing.T) {
	path := compile(t, saysVersion, "-static")
	was := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	was.Close()
	b := must[[]byte](t)(os.ReadFile(path))
	at := bytes.Index(b, []byte("fake 1.0"))
	f := must[*os.File](t)(os.OpenFile(path, os.O_WRONLY, 0))
	must[int](t)(f.WriteAt([]byte("evil"), int64(at)))
	fatal(t, f.Close())
	now := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	defer now.Close()
	if now.Identity().Size != was.Identity().Size || now.Identity().Inode != was.Identity().Inode {
		t.Fatal("the test did not build what it is about")
	}
	err := now.Compare(was.Identity())
	refused(t, err, "managed_harness_identity_changed")
	if !strings.Contains(err.Error(), "sha256") {
		t.Errorf("names another field: %v", err)
	}
}

func TestHarness_SwappedInode(t *testing.T) {
	path := compile(t, saysVersion, "-static")
	was := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	b := must[[]byte](t)(os.ReadFile(path))
	fatal(t, os.WriteFile(path+".new", b, 0o755))
	fatal(t, os.Chmod(path+".new", 0o755))
	fatal(t, os.Rename(path+".new", path))
	refused(t, was.Recheck(), "managed_harness_identity_changed")
	was.Close()
	now := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	defer now.Close()
	err := now.Compare(was.Identity())
	refused(t, err, "managed_harness_identity_changed")
	if !strings.Contains(err.Error(), "inode") {
		t.Errorf("names another field: %v", err)
	}
}

func TestHarness_WhatHappensWhileItIsHeldIsSeen(t *testing.T) {
	for name, touch := range map[string]func(t *testing.T, path string){
		"opened for writing": func(t *testing.T, p string) {
			// Non-blocking: an ordinary open would wait for the lease to end.
			if _, err := unix.Open(p, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != unix.EWOULDBLOCK {
				t.Fatalf("a writer got in: %v", err)
			}
		},
		"chmod and back": func(t *testing.T, p string) {
			fatal(t, os.Chmod(p, 0o777))
			fatal(t, os.Chmod(p, 0o755))
		},
		"another link": func(t *testing.T, p string) { fatal(t, os.Link(p, p+"2")) },
		"renamed away": func(t *testing.T, p string) { fatal(t, os.Rename(p, p+"2")) },
		"unlinked":     func(t *testing.T, p string) { fatal(t, os.Remove(p)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := compile(t, saysVersion, "-static")
			h := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
			defer h.Close()
			touch(t, path)
			refused(t, h.Recheck(), "managed_harness_identity_changed")
		})
	}
}

func TestHarness_CloseLetsWritersIn(t *testing.T) {
	path := compile(t, saysVersion, "-static")
	h := must[*harness.Held](t)(harness.Hold(t.Context(), path, static))
	fatal(t, h.Close())
	f := must[*os.File](t)(os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0))
	f.Close()
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
