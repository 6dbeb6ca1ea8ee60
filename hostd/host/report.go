package host

import (
	"encoding/json"
	"errors"
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

func (r reporter) write(h messages.HostReport) error { return r.put(h, os.Rename) }

func (r reporter) put(h messages.HostReport, place func(tmp, path string) error) error {
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
		err = place(tmp.Name(), r.path)
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

// refusedUnread reports that there is no manifest for this host, unless there
// is a report already: whoever consumed the manifest wrote it, and a replay must
// not change what the daemon is told of that launch.
func (r reporter) refusedUnread(err error) error {
	p := problem.Of(err)
	err = r.put(messages.HostReport{Stage: messages.StageRefused, Code: p.Code, Message: p.Error()}, func(tmp, path string) error {
		if err := os.Link(tmp, path); err != nil {
			return err
		}
		return os.Remove(tmp)
	})
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// ending is how a process ended.
func ending(s *os.ProcessState) (code int, signal string) {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal().String()
	}
	return s.ExitCode(), ""
}
