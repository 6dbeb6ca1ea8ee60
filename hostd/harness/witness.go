package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

// Bounds of a witness. Measured are 15 to 660 ms and 22 bytes.
const (
	witnessTime   = 15 * time.Second
	witnessOutput = 4096 // bytes kept; more ends the witness
)

// Witness runs the held bytes with the contract's version arguments and
// refuses with unsupported_harness_version unless the output is exactly the
// pinned version. It returns the output without the newline.
//
// The program gets an empty environment but for its configuration home and
// HOME, both a fresh folder below scratch, which is removed afterwards (Codex
// writes into CODEX_HOME even for --version). scratch must not lie below a
// temp folder, which Codex refuses.
func (h *Held) Witness(ctx context.Context, c contracts.Contract, scratch string) (string, error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return "", problem.Wrap(err, "witness_failed", "no scratch folder for the version witness")
	}
	home, err := os.MkdirTemp(scratch, "witness-")
	if err != nil {
		return "", problem.Wrap(err, "witness_failed", "no scratch folder for the version witness")
	}
	defer os.RemoveAll(home)
	out, err := h.run(ctx, home, c)
	if err != nil {
		return "", problem.Wrap(err, "unsupported_harness_version", "%s could not be asked for its version", h.id.Path).
			WithHint("Run it with %s yourself to see why.", strings.Join(c.VersionArgs, " "))
	}
	if out != c.Version {
		return out, problem.New("unsupported_harness_version", "%s says %q, witnessed is %q", h.id.Path, clip(out), c.Version).
			WithHint("Install the witnessed version, or wait for a Sophia that knows this one.").WithValid(c.Version)
	}
	return out, h.Recheck()
}

func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// run starts the held descriptor in a process group of its own, which is
// killed as a whole when ctx ends, time is up or it says too much.
func (h *Held) run(ctx context.Context, home string, c contracts.Contract) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessTime)
	defer cancel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	defer w.Close()
	held, err := h.DupAbove(int(max(null.Fd(), w.Fd())) + 64)
	if err != nil {
		return "", err
	}
	defer held.Close()
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/self/fd/%d", held.Fd()), c.VersionArgs...)
	cmd.Args[0] = filepath.Base(c.Entry)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home}
	if c.HomeVar != "" {
		cmd.Env = append(cmd.Env, c.HomeVar+"="+home)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = null, w, null
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	group := func() error {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.Cancel = group
	// Descriptors that this process inherited without close-on-exec are not
	// for the harness; Go's own all have it. Kernel 5.11 and newer.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.Close() // so that the read ends when the program does
	read := make(chan []byte, 1)
	go func() {
		var b bytes.Buffer
		b.ReadFrom(&limited{r: r, left: witnessOutput + 1})
		if b.Len() > witnessOutput {
			cancel()
		}
		read <- b.Bytes()
	}()
	err = cmd.Wait()
	_ = group()                                        // what it left behind holds the pipe
	_ = r.SetReadDeadline(time.Now().Add(time.Second)) // and what escaped the group must not hold us
	out := <-read
	switch {
	case len(out) > witnessOutput:
		return "", fmt.Errorf("it printed more than %d bytes", witnessOutput)
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end in time: %w", ctx.Err())
	case err != nil:
		return "", err
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// limited ends after left bytes.
type limited struct {
	r    *os.File
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooMuch
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

var errTooMuch = errors.New("too much output")
