package messages

// Envelope is what the relay hands to the wrapper, once per launch. Handle is
// the one-use redemption handle, or, after a deposit, empty.
type Envelope struct {
	Launch  string `json:"launch"`
	Lease   string `json:"lease"`
	MCP     string `json:"mcp"`    // URL of the MCP endpoint
	Broker  string `json:"broker"` // path of the redemption socket
	Reused  bool   `json:"reused"` // true: the secret that follows is the deposited bearer
	Receipt string `json:"receipt_nonce"`
}

// WorkReceipt is the daemon's structured answer to a wrapper's proof of its
// bearer, bound to the lease that the plan named.
type WorkReceipt struct {
	Launch        string `json:"launch"`
	Lease         string `json:"lease"`
	Connection    string `json:"connection"`
	WrapperDigest string `json:"wrapper_digest"`
	PlanDigest    string `json:"plan_digest"`
	Nonce         string `json:"nonce"` // the caller's, given back
}
