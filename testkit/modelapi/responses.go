package modelapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

type responsesRequest struct {
	Model string `json:"model"`
	Input []struct {
		Type   string          `json:"type"`
		CallID string          `json:"call_id"`
		Output json.RawMessage `json:"output"`
	} `json:"input"`
	Tools []struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	} `json:"tools"`
}

// responses answers POST /v1/responses. Codex 0.147.0 needs created,
// output_item.added, output_item.done and completed, and wants an MCP tool's
// namespace and name as two fields (measured).
func (s *Server) responses(w http.ResponseWriter, _ *http.Request, body []byte) {
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		reply(w, http.StatusBadRequest, object{"error": object{"message": err.Error()}})
		return
	}
	var offered []offer
	for _, t := range req.Tools {
		switch t.Type {
		case "namespace":
			for _, inner := range t.Tools {
				offered = append(offered, offer{t.Name, inner.Name})
			}
		case "function":
			offered = append(offered, offer{"", t.Name})
		}
	}
	var results []ToolOutput
	for _, in := range req.Input {
		if in.Type == "function_call_output" {
			raw, _ := json.Marshal(in)
			results = append(results, ToolOutput{CallID: in.CallID, Text: outputText(in.Output), Raw: raw})
		}
	}
	n := len(results) + 1
	var item object
	if call, tool, ok := s.turn(results, offered); ok {
		item = object{
			"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": s.callID("call", tool.name),
			"name": tool.name, "arguments": call.Arguments, "status": "completed",
		}
		if tool.namespace != "" {
			item["namespace"] = tool.namespace
		}
	} else {
		item = object{
			"type": "message", "id": fmt.Sprintf("msg_%d", n), "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": s.script.Final, "annotations": []any{}}},
		}
	}
	response := func(status string, output ...any) object {
		return object{
			"id": fmt.Sprintf("resp_%d", n), "object": "response", "status": status, "model": req.Model,
			"output": append([]any{}, output...),
			"usage": object{
				"input_tokens": 1, "input_tokens_details": object{"cached_tokens": 0},
				"output_tokens": 1, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 2,
			},
		}
	}
	started := object{}
	for k, v := range item {
		started[k] = v
	}
	started["status"] = "in_progress"
	w.Header().Set("Content-Type", "text/event-stream")
	for i, e := range []struct {
		name string
		data object
	}{
		{"response.created", object{"response": response("in_progress")}},
		{"response.output_item.added", object{"output_index": 0, "item": started}},
		{"response.output_item.done", object{"output_index": 0, "item": item}},
		{"response.completed", object{"response": response("completed", item)}},
	} {
		e.data["type"], e.data["sequence_number"] = e.name, i
		event(w, e.name, e.data)
	}
}

// outputText is a tool output's text: a string, or a list of content parts.
func outputText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) == nil {
		texts := make([]string, 0, len(parts))
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		return strings.Join(texts, "\n")
	}
	return string(raw)
}
