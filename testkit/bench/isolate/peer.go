package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed peer.js
var peerSource []byte

// version of the peer, from npm.
const version = "isolated-vm@5.0.4"

// installPeer installs the peer into dir, once, and returns its script.
func installPeer(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	script := filepath.Join(dir, "peer.js")
	if err := os.WriteFile(script, peerSource, 0o644); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "isolated-vm", "out")); err == nil {
		return script, nil
	}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", version)
	npm.Dir = dir
	if _, err := os.Stat("/usr/include/node/node.h"); err == nil { // it is compiled; the headers of the packaged Node need no download
		npm.Env = append(os.Environ(), "npm_config_nodedir=/usr")
	}
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install %s: %w\n%s", version, err, out)
	}
	return script, nil
}

type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	n   int
}

type line struct {
	Ready bool            `json:"ready,omitempty"`
	Run   int             `json:"run,omitempty"`
	Code  string          `json:"code,omitempty"`
	Call  int             `json:"call,omitempty"`
	Value string          `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Out   json.RawMessage `json:"result,omitempty"`
}

func startPeer(script string) (*peer, error) {
	p := &peer{cmd: exec.Command("node", "--no-node-snapshot", script)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	l, err := p.read()
	if err != nil || !l.Ready {
		p.stop()
		return nil, fmt.Errorf("the peer did not start: %+v, %w", l, err)
	}
	return p, nil
}

func (p *peer) read() (l line, err error) {
	b, err := p.out.ReadBytes('\n')
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(b, &l)
}

func (p *peer) write(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(b, '\n'))
	return err
}

// run runs code and answers its calls.
func (p *peer) run(code string) (string, error) {
	p.n++
	if err := p.write(line{Run: p.n, Code: code}); err != nil {
		return "", err
	}
	for {
		l, err := p.read()
		switch {
		case err != nil:
			return "", err
		case l.Error != "":
			return "", errors.New(l.Error)
		case l.Call != 0:
			// The result travels as a string, which the isolate parses.
			answer, err := json.Marshal(string(reply))
			if err != nil {
				return "", err
			}
			if err := p.write(line{Call: l.Call, Out: answer}); err != nil {
				return "", err
			}
		default:
			return l.Value, nil
		}
	}
}

func (p *peer) stop() {
	p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
