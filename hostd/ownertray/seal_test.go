package ownertray

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTray_ClosesItselfToOthers(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0)
	for yes, want := range map[bool]int{false: 0, true: 1} {
		if err := traceable(yes); err != nil {
			t.Fatal(err)
		}
		if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != want {
			t.Errorf("traceable(%v): dumpable is %d, %v", yes, got, err)
		}
	}
}
