package messages

// Kinds of tray event.
const (
	TrayAsked    = "asked"    // Request waits for the owner
	TrayAnswered = "answered" // it does no more: Verdict says why
)

// TrayEvent is what a tray or a portal page is told. The events of one request
// come in order: asked, then answered once. After a reconnect the open requests
// are told again, so a reader keys by the request's ID.
type TrayEvent struct {
	Kind    string           `json:"kind"`
	Request *ApprovalRequest `json:"request,omitempty"`
	Verdict *ApprovalVerdict `json:"verdict,omitempty"`
}
