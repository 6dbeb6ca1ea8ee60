package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"sophia/messages/secret"
)

func TestSecret_NoWayOfPrintingShowsIt(t *testing.T) {
	s, err := secret.New([]byte("hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Zero()
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s)
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s, s, s), log.String()} {
		if strings.Contains(out, "hunter2") || strings.Contains(out, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("shown: %s", out)
		}
	}
	if _, err := json.Marshal(s); err == nil {
		t.Error("marshalled as JSON")
	}
	if err := gob.NewEncoder(&log).Encode(s); err == nil {
		t.Error("marshalled as gob")
	}
}

func TestSecret_ZeroedIsGone(t *testing.T) {
	given := []byte("hunter2")
	before := secret.Live()
	s, err := secret.New(given)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(given, make([]byte, 7)) {
		t.Error("the bytes it was made from are still there")
	}
	c, err := s.Clone()
	if err != nil {
		t.Fatal(err)
	}
	s.Zero()
	s.Zero()
	if err := s.Use(func([]byte) error { return nil }); !errors.Is(err, secret.ErrGone) {
		t.Errorf("use after zero: %v", err)
	}
	if !c.Equal([]byte("hunter2")) || c.Equal([]byte("hunter3")) {
		t.Error("the clone does not have the bytes")
	}
	c.Zero()
	if secret.Live() != before {
		t.Errorf("live secrets: %d, want %d", secret.Live(), before)
	}
}
