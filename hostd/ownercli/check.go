package ownercli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"sophia/hostd/ownerapi"
	"sophia/messages/problem"
)

// checkWait bounds the check of a new connection.
const checkWait = 20 * time.Second

// check makes a real sophia.orient over the command that the agent will run:
// the wrapper, the bearer file and the endpoint are all in it, and the bearer
// is in none of our memory.
func check(ctx context.Context, wrapper string, minted ownerapi.Minted) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, wrapper, "--url", minted.MCP, "--bearer-file", minted.BearerFile)
	cmd.WaitDelay = 2 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return problem.Wrap(err, "check_failed", "%s can't be started", wrapper)
	}
	tool := "sophia.orient"
	if minted.ToolNames == "underscore" {
		tool = "sophia_orient"
	}
	asked := orient(in, out, tool)
	in.Close()
	if asked != nil {
		cancel()
	}
	ended := cmd.Wait()
	if asked == nil {
		return nil
	}
	if said := strings.TrimSpace(complaint.String()); said != "" {
		asked = errors.New(said)
	} else if ended != nil && errors.Is(asked, io.EOF) {
		asked = ended
	}
	return problem.Wrap(asked, "check_failed", "a sophia.orient over the new connection did not come back").
		WithHint("The connection is revoked and the configuration is as it was.")
}

type rpcAnswer struct {
	ID     *int            `json:"id"`
	Error  *rpcError       `json:"error"`
	Result json.RawMessage `json:"result"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func orient(in io.Writer, out io.Reader, tool string) error {
	answers := bufio.NewReader(out)
	ask := func(id int, method, params string) (json.RawMessage, error) {
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			return nil, err
		}
		for {
			line, err := answers.ReadBytes('\n')
			if err != nil {
				return nil, err
			}
			var a rpcAnswer
			if err := json.Unmarshal(line, &a); err != nil {
				return nil, err
			}
			switch {
			case a.ID == nil || *a.ID != id: // a notification
			case a.Error != nil:
				return nil, fmt.Errorf("%s: %s (%d)", method, a.Error.Message, a.Error.Code)
			default:
				return a.Result, nil
			}
		}
	}
	if _, err := ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sophia connect","version":"1"}}`); err != nil {
		return err
	}
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return err
	}
	result, err := ask(2, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool))
	if err != nil {
		return err
	}
	var r struct {
		IsError bool            `json:"isError"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if r.IsError {
		return fmt.Errorf("sophia.orient refused: %.300s", r.Content)
	}
	return nil
}
