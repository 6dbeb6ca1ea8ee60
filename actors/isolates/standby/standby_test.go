package standby_test

import (
	"os"
	"testing"

	"sophia/actors/isolates/standby"
)

func TestSpare_UntilSomethingComes(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	if !standby.Spare(fd) {
		t.Error("nothing came, and somebody waits")
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if standby.Spare(fd) {
		t.Error("a frame is there, and nobody waits")
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if standby.Spare(fd) {
		t.Error("the daemon is gone, and there is time to warm up")
	}
	if standby.Spare(1 << 20) {
		t.Error("of a descriptor that is not open")
	}
}
