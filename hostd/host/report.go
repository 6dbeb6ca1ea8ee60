package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sophia/messages"
	"sophia/messages/problem"
)

// reporter replaces the report file at each stage.
type reporter struct {
	path   string
	launch string
	now    func() time.Time
}

func (r reporter) write(h messages.HostReport) error {
	h.Launch, h.At = r.launch, r.now().UTC()
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(r.path), ".report-")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), r.path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

func (r reporter) refused(err error) error {
	p := problem.Of(err)
	text := p.Error() // with its cause: the owner's own machine, and a reason to act on
	return r.write(messages.HostReport{Stage: messages.StageRefused, Code: p.Code, Message: text})
}

// ending is how a process ended.
func ending(s *os.ProcessState) (code int, signal string) {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return s.ExitCode(), ""
}
