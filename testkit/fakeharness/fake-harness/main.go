// Command program is the misbehaving harness that package fakeharness describes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

func main() {
	steps := os.Args[1:]
	if len(steps) == 0 {
		steps = strings.Split(os.Getenv("FAKEHARNESS"), "\n")
	}
	if len(steps) > 0 && steps[0] == "--version" {
		fmt.Println("fake-harness 1.0.0")
		return
	}
	verbs := table()
	for _, s := range steps {
		verb, arg, _ := strings.Cut(os.ExpandEnv(s), ":")
		do, ok := verbs[verb]
		if !ok {
			fmt.Fprintf(os.Stderr, "fake-harness: no step %q\n", s)
			os.Exit(64)
		}
		if err := do(arg); err != nil {
			fmt.Fprintf(os.Stderr, "fake-harness: %s: %v\n", s, err)
			os.Exit(65)
		}
	}
}

// keep holds what must stay open: the garbage collector would close a file.
var keep []any

func table() map[string]func(string) error {
	return map[string]func(string) error{
		"":            func(string) error { return nil },
		"print":       func(s string) error { _, err := fmt.Println(unescape(s)); return err },
		"args":        func(string) error { _, err := fmt.Printf("args %q\n", os.Args); return err },
		"env":         printEnv,
		"fds":         printFDs,
		"tty":         printTTY,
		"cwd":         func(string) error { d, err := os.Getwd(); fmt.Println("cwd", d); return err },
		"flood":       flood,
		"query":       query,
		"echo":        echo,
		"resized":     resized,
		"ignore-term": func(string) error { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT); return nil },
		"child":       func(s string) error { return child(s, false, nil) },
		"setsid":      func(s string) error { return child(s, true, nil) },
		"daemon":      func(s string) error { return daemon(s, os.Environ()) },
		"scrubbed":    func(s string) error { return daemon(s, []string{"PATH=/usr/bin:/bin"}) },
		"middle":      func(s string) error { return child(s, true, os.Environ()) },
		"hold":        func(s string) error { f, err := os.Open(s); keep = append(keep, f); return err },
		"join": func(s string) error {
			return os.WriteFile(filepath.Join(s, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
		},
		"wait": wait,
		"out": func(s string) (err error) {
			os.Stdout, err = os.OpenFile(s, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			return err
		},
		"write": try("write", func(s string) (string, error) {
			f, err := os.OpenFile(s, os.O_CREATE|os.O_WRONLY, 0o600)
			f.Close()
			return "", err
		}),
		"list":    try("list", list),
		"run":     try("run", run),
		"session": session,
		"mcp":     mcp,
		"now": func(s string) error {
			return os.WriteFile(s, []byte(strconv.FormatInt(time.Now().UnixNano(), 10)), 0o600)
		},
		"pid": func(s string) error {
			tmp := s + ".new"
			if err := os.WriteFile(tmp, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				return err
			}
			return os.Rename(tmp, s)
		},
		"sleep": func(s string) error {
			f, err := strconv.ParseFloat(s, 64)
			time.Sleep(time.Duration(f * float64(time.Second)))
			return err
		},
		"forever": func(string) error {
			for {
				time.Sleep(time.Hour)
			}
		},
		"exit": func(s string) error {
			n, err := strconv.Atoi(s)
			if err == nil {
				os.Exit(n)
			}
			return err
		},
		"kill": func(s string) error {
			n, err := strconv.Atoi(s)
			if err != nil {
				return err
			}
			return unix.Kill(os.Getpid(), syscall.Signal(n))
		},
	}
}

// wait polls: the path may be in a folder that does not exist yet.
func wait(path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// try prints what came of an attempt that may be refused.
func try(what string, f func(string) (string, error)) func(string) error {
	return func(arg string) error {
		said, err := f(arg)
		if err != nil {
			_, err = fmt.Printf("%s %s: refused: %v %q\n", what, arg, err, said)
			return err
		}
		_, err = fmt.Printf("%s %s: done %q\n", what, arg, said)
		return err
	}
}

func list(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " "), err
}

func run(line string) (string, error) {
	f := strings.Fields(line)
	out, err := exec.Command(f[0], f[1:]...).CombinedOutput()
	return string(out), err
}

// session is what a well-behaved harness does first: it starts its one MCP
// server and keeps it.
func session(string) error {
	text, err := os.ReadFile(filepath.Join(os.Getenv("FAKE_HOME"), "mcp.json"))
	if err != nil {
		return err
	}
	var file struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	server := file.Servers["sophia"]
	cmd := exec.Command(server.Command, server.Args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	keep = append(keep, cmd, in, out)
	fmt.Fprintln(in, initialize)
	line, err := bufio.NewReader(out).ReadString('\n')
	fmt.Printf("session %s", line)
	return err
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"fake-harness","version":"1.0.0"}}}`

func unescape(s string) string {
	return strings.NewReplacer(`\e`, "\x1b", `\n`, "\n", `\a`, "\a").Replace(s)
}

func printEnv(string) error {
	env := os.Environ()
	sort.Strings(env)
	for _, kv := range env {
		fmt.Println("env", kv)
	}
	return nil
}

// printFDs lists the descriptors that were inherited. The runtime opens some of
// its own: epoll, eventfd, the limits of its control group.
func printFDs(string) error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, n := range names {
		to, err := os.Readlink("/proc/self/fd/" + n.Name())
		if err != nil || strings.HasPrefix(to, "anon_inode:[event") || strings.HasPrefix(to, "/proc/") || strings.HasPrefix(to, "/sys/fs/cgroup/") {
			continue
		}
		fmt.Println("fd", n.Name(), to)
	}
	return nil
}

func printTTY(string) error {
	sid, _ := unix.Getsid(0)
	fore, ferr := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	if err != nil {
		return err
	}
	fmt.Printf("tty leader=%v foreground=%v size=%dx%d\n", sid == os.Getpid(), ferr == nil && fore == unix.Getpgrp(), size.Col, size.Row)
	return nil
}

func flood(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := 0; n > 0; i++ {
		line := fmt.Sprintf("line %012d %s\n", i, strings.Repeat("x", 60))
		if len(line) > n {
			line = line[:n]
		}
		w.WriteString(line)
		n -= len(line)
	}
	return w.Flush()
}

// query reads one answer: a CSI sequence up to its final byte, or an OSC or
// DCS string up to its terminator.
func query(s string) error {
	old, err := term.MakeRaw(0)
	if err != nil {
		return err
	}
	defer term.Restore(0, old)
	fmt.Print(unescape(s))
	var got []byte
	b := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(b); err != nil {
			return err
		}
		got = append(got, b[0])
		n := len(got)
		if n < 3 {
			continue
		}
		if got[1] == '[' && b[0] >= 0x40 && b[0] <= 0x7e || b[0] == '\a' || b[0] == '\\' && got[n-2] == 0x1b {
			fmt.Printf("answer %q\r\n", got)
			return nil
		}
	}
}

func echo(string) error {
	old, err := term.MakeRaw(0)
	if err == nil {
		defer term.Restore(0, old)
	}
	var line []byte
	b := make([]byte, 4096)
	for {
		n, err := os.Stdin.Read(b)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(b[:n]); err != nil {
			return err
		}
		line = append(line, b[:n]...)
		if strings.Contains(string(line), "end\r") || strings.Contains(string(line), "end\n") {
			return nil
		}
		if i := strings.LastIndexAny(string(line), "\r\n"); i >= 0 {
			line = line[i+1:]
		}
	}
}

func resized(string) error {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	was, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	if err != nil {
		return err
	}
	fmt.Println("waiting for a resize")
	<-c
	size := was
	// The kernel (pty_resize) signals before it stores the size.
	for range 1000 {
		if size, err = unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err != nil || *size != *was {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return err
	}
	fmt.Printf("size %dx%d\n", size.Col, size.Row)
	return nil
}

func child(steps string, session bool, env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, strings.Split(steps, ";")...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if !session {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	keep = append(keep, cmd)
	return cmd.Start()
}

func daemon(steps string, env []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "middle:"+steps)
	cmd.Env = env
	cmd.Dir = "/"
	return cmd.Run() // the one in the middle ends at once
}

func mcp(s string) error {
	f := strings.Fields(s)
	cmd := exec.Command(f[0], f[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Fprintln(in, initialize)
	line, err := bufio.NewReader(out).ReadString('\n')
	fmt.Printf("mcp %s", line)
	if err != nil {
		fmt.Println("mcp ended:", err)
	}
	in.Close()
	_ = cmd.Wait() // the exit code is what is shown
	fmt.Println("mcp exit:", cmd.ProcessState.ExitCode())
	return nil
}
