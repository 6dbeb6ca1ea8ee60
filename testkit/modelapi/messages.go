package modelapi

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// messages answers POST /v1/messages, streamed or not. Claude Code names an
// MCP tool mcp__<server>__<tool>.
func (s *Server) messages(w http.ResponseWriter, _ *http.Request, body []byte) {
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		reply(w, http.StatusBadRequest, object{"type": "error", "error": object{"type": "invalid_request_error", "message": err.Error()}})
		return
	}
	offered := make([]offer, 0, len(req.Tools))
	for _, t := range req.Tools {
		offered = append(offered, offer{"", t.Name})
	}
	var results []ToolOutput
	for _, m := range req.Messages {
		var blocks []struct {
			Type      string          `json:"type"`
			ToolUseID string          `json:"tool_use_id"`
			Content   json.RawMessage `json:"content"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil { // a plain string
			continue
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				raw, _ := json.Marshal(b)
				results = append(results, ToolOutput{CallID: b.ToolUseID, Text: outputText(b.Content), Raw: raw})
			}
		}
	}
	n := len(results) + 1
	call, tool, calls := s.turn(results, offered)
	block, stop := object{"type": "text", "text": s.script.Final}, "end_turn"
	if calls {
		block = object{"type": "tool_use", "id": s.callID("toolu", tool.name), "name": tool.name, "input": json.RawMessage(call.Arguments)}
		stop = "tool_use"
	}
	message := object{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": req.Model, "stop_sequence": nil}
	if !req.Stream {
		message["content"], message["stop_reason"] = []any{block}, stop
		message["usage"] = object{"input_tokens": 1, "output_tokens": 1}
		reply(w, http.StatusOK, message)
		return
	}
	message["content"], message["stop_reason"] = []any{}, nil
	message["usage"] = object{"input_tokens": 1, "output_tokens": 1}
	empty, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": s.script.Final}
	if calls {
		empty = object{"type": "tool_use", "id": block["id"], "name": block["name"], "input": object{}}
		delta = object{"type": "input_json_delta", "partial_json": call.Arguments}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event(w, "message_start", object{"type": "message_start", "message": message})
	event(w, "content_block_start", object{"type": "content_block_start", "index": 0, "content_block": empty})
	event(w, "content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
	event(w, "content_block_stop", object{"type": "content_block_stop", "index": 0})
	event(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 1}})
	event(w, "message_stop", object{"type": "message_stop"})
}
