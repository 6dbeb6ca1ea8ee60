package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"sophia/hostd/terminal"
	"sophia/messages/secret"
)

const roleFlag = "-role"

// play is this program in another role.
func play(role string, args []string) error {
	switch role {
	case "agent": // CONTROL BYTES
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return agent(args[0], n)
	case "echo": // CONTROL
		return echo(args[0])
	case "viewer": // SOCKET TOKEN HOST, 0 for one that is not known
		host, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return view(args[0], args[1], host)
	}
	return fmt.Errorf("no role %q", role)
}

// agent writes bytes to its terminal when it is told to, and tells how many
// nanoseconds that took.
func agent(control string, bytes int) error {
	c, err := net.Dial("unix", control)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return err
	}
	piece := workload()
	begin := time.Now()
	for bytes > 0 {
		n, err := os.Stdout.Write(piece[:min(len(piece), bytes)])
		if err != nil {
			return err
		}
		bytes -= n
	}
	if _, err := fmt.Fprintf(c, "%d\n", time.Since(begin)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1)) // its terminal lasts until it is told to end
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// workload is 8 KiB of what a coding agent shows: coloured lines, some in
// other alphabets, now and then a place on the screen.
func workload() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 8<<10; i++ {
		fmt.Fprintf(&b, "\x1b[38;5;%dm%4d\x1b[m │ \x1b[1mfunc\x1b[22m (r *relay) receive(ctx context.Context, v *viewer) error { // %s\x1b[K\r\n", 16+i%200, i, strings.Repeat("x", i%24))
		if i%16 == 0 {
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2Kworking… %d s", 1+i%24, i)
		}
	}
	return b.Bytes()
}

// echo gives every key back, as a program in raw mode does.
func echo(control string) error {
	c, err := net.Dial("unix", control)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := term.MakeRaw(0); err != nil {
		return err
	}
	if _, err := c.Write([]byte{'r'}); err != nil {
		return err
	}
	go func() {
		_, _ = c.Read(make([]byte, 1)) // ends with the bench
		os.Exit(0)
	}()
	buf := make([]byte, 4096)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// view is what sophia agent attach does, which asks systemd who the host is.
func view(socket, token string, host int) error {
	runtime.GOMAXPROCS(1) // so does it
	s, err := secret.New([]byte(token))
	if err != nil {
		return err
	}
	defer s.Zero()
	v := terminal.Viewer{Socket: socket, In: os.Stdin, Out: os.Stdout}
	if host != 0 {
		v.Host = func(context.Context) (int, error) { return host, nil }
	}
	_, err = v.Attach(context.Background(), s)
	return err
}

// control is the bench's side of an agent or an echo.
type control struct {
	l net.Listener
	c net.Conn
	r *bufio.Reader
}

func listen(path string) (*control, error) {
	l, err := net.Listen("unix", path)
	return &control{l: l}, err
}

func (c *control) path() string { return c.l.Addr().String() }

// arrive waits until the program runs.
func (c *control) arrive() (err error) {
	if err := c.l.(*net.UnixListener).SetDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	if c.c, err = c.l.Accept(); err != nil {
		return fmt.Errorf("the program did not start: %w", err)
	}
	c.r = bufio.NewReader(c.c)
	return nil
}

// write lets the agent write, and returns how long it took. An agent that is
// blocked for patience has written nothing worth measuring: blocked.
func (c *control) write(patience time.Duration) (took time.Duration, blocked bool, err error) {
	if _, err := c.c.Write([]byte{'g'}); err != nil {
		return 0, false, err
	}
	if err := c.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, false, err
	}
	line, err := c.r.ReadString('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return patience, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Duration(n), false, err
}

func (c *control) close() {
	if c.c != nil {
		c.c.Close()
	}
	c.l.Close()
}
