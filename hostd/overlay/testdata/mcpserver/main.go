// A tiny MCP server on stdio in the wrapper's place: it notes its arguments
// beside its own executable and offers one read-only tool.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	self, err := os.Executable()
	if err != nil {
		os.Exit(1)
	}
	note, err := os.OpenFile(self+".started", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(1)
	}
	args, _ := json.Marshal(os.Args[1:])
	fmt.Fprintf(note, "%s\n", args)
	note.Close()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<22)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		var result any = struct{}{}
		switch req.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": req.Params.Version, "capabilities": map[string]any{"tools": struct{}{}},
				"serverInfo": map[string]string{"name": "sophia", "version": "0"}}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{"name": "sophia.orient", "description": "Orients.",
				"inputSchema": map[string]any{"type": "object"}, "annotations": map[string]any{"readOnlyHint": true}}}}
		case "tools/call":
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": "oriented-by-the-only-server"}}}
		}
		out, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": req.ID, "result": result})
		if err != nil {
			os.Exit(1)
		}
		fmt.Printf("%s\n", out)
	}
}
