package messages

import "time"

// FileIdentity is one file as it was when its bytes were verified.
type FileIdentity struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // hex
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"` // bytes
	Mode   uint32 `json:"mode"` // permission bits
}

// DirIdentity is a directory as it was when the plan was prepared.
type DirIdentity struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Workspace is a registered checkout.
type Workspace struct {
	ID      string    `json:"id"` // ws-…
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Created time.Time `json:"created"`
}

// LaunchProfile is what the owner picks when starting an agent.
type LaunchProfile struct {
	ID            string   `json:"id"`
	Version       int      `json:"version"`
	Name          string   `json:"name"`    // "Codex reviewer"
	Harness       string   `json:"harness"` // codex, claude-code
	Permission    Profile  `json:"permission"`
	Surface       Surface  `json:"surface"`
	Scope         []string `json:"scope"`
	LeaseSeconds  int      `json:"lease_seconds"`
	WriteApproval string   `json:"write_approval"` // profile (as the permission says), always
	Confine       string   `json:"confine"`        // standard, strict
	Default       bool     `json:"default"`
}

// Plan is everything the owner approves of a launch. Its digest is what the
// approval is bound to, and the supervisor refuses by the name of the first
// field that differs from the operation it is handed.
type Plan struct {
	Launch          string       `json:"launch"`            // lp-…
	Lease           string       `json:"lease"`             // ls-…
	Resumes         string       `json:"resumes,omitempty"` // the ended lease that this launch goes on from; "" for none
	Workspace       string       `json:"workspace"`
	WorkspaceDir    DirIdentity  `json:"workspace_dir"`
	Profile         string       `json:"profile"`
	ProfileVersion  int          `json:"profile_version"`
	ProfileName     string       `json:"profile_name"`
	Seat            string       `json:"seat"`
	Harness         string       `json:"harness"`
	HarnessVersion  string       `json:"harness_version"` // the pinned --version output
	HarnessIdentity FileIdentity `json:"harness_identity"`
	HarnessTree     string       `json:"harness_tree"` // digest of the adopted vendor tree, "" when not adopted
	Wrapper         FileIdentity `json:"wrapper"`
	Host            FileIdentity `json:"host"`
	Launcher        FileIdentity `json:"launcher"`    // the daemon's own executable
	PeerDigest      string       `json:"peer_digest"` // expected IPC peer: the wrapper's SHA-256
	Permission      Profile      `json:"permission"`
	Surface         Surface      `json:"surface"`
	Scope           []string     `json:"scope"`
	LeaseSeconds    int          `json:"lease_seconds"`
	WriteApproval   string       `json:"write_approval"`
	Confine         string       `json:"confine"`
	Isolated        bool         `json:"isolated"` // private HOME, no project instructions
	Arguments       []string     `json:"arguments"`
}

// LeaseState is where a launch stands.
type LeaseState string

const (
	LeaseProposed   LeaseState = "proposed"
	LeasePending    LeaseState = "pending_trusted_presence"
	LeaseApproved   LeaseState = "approved"
	LeaseVerifying  LeaseState = "verifying"
	LeaseStarting   LeaseState = "starting"
	LeaseRedeeming  LeaseState = "redeeming"
	LeaseRunning    LeaseState = "running"
	LeaseStopping   LeaseState = "stopping"
	LeaseQuiescing  LeaseState = "quiescing"
	LeaseEvidencing LeaseState = "evidencing"
	LeaseEnded      LeaseState = "ended"
	LeaseRefused    LeaseState = "refused"
	LeaseDenied     LeaseState = "denied"
	LeaseExpired    LeaseState = "expired" // the approval ran out before an answer
	LeaseFailed     LeaseState = "failed"
	LeaseUnquiet    LeaseState = "unquiet" // could not be proven quiet; the overlay stays
)

// Lease is a launch as it is stored at each transition.
type Lease struct {
	ID         string      `json:"id"` // ls-…
	Launch     string      `json:"launch"`
	State      LeaseState  `json:"state"`
	Outcome    LeaseState  `json:"outcome,omitempty"` // the final state that the ending leads to: ended, failed, refused
	Plan       Plan        `json:"plan"`
	PlanDigest string      `json:"plan_digest"` // hex
	Connection string      `json:"connection,omitempty"`
	Approval   string      `json:"approval,omitempty"`
	Unit       UnitRef     `json:"unit"`
	Code       string      `json:"code,omitempty"` // why it was refused or failed
	Reason     string      `json:"reason,omitempty"`
	Evidence   *Evidence   `json:"evidence,omitempty"`
	History    []LeaseStep `json:"history"`
	Expires    *time.Time  `json:"expires,omitempty"`
	Updated    time.Time   `json:"updated"`
}

// LeaseStep is one transition.
type LeaseStep struct {
	State LeaseState `json:"state"`
	At    time.Time  `json:"at"`
	Why   string     `json:"why,omitempty"`
}

// UnitRef names one activation of a systemd unit. The control group's path is
// trusted only after it was validated against the invocation.
type UnitRef struct {
	Name         string `json:"name,omitempty"`
	InvocationID string `json:"invocation_id,omitempty"`
	ControlGroup string `json:"control_group,omitempty"`
}

// Evidence is what every real config source looked like before and after.
type Evidence struct {
	Before     []SourceState `json:"before"`
	After      []SourceState `json:"after,omitempty"`
	Untouched  bool          `json:"untouched"`
	Changed    []string      `json:"changed,omitempty"`
	Credential string        `json:"credential,omitempty"` // one of Credential…
}

// SourceState is one file's content hash; missing counts as a state.
type SourceState struct {
	Path   string `json:"path"`
	State  string `json:"state"` // file, dir, missing, unreadable
	SHA256 string `json:"sha256,omitempty"`
}

// Manifest is what sophia-host is told, once: it is consumed by digest and
// unlinked on read. It holds no secret.
type Manifest struct {
	Version       int               `json:"version"` // 1
	Launch        string            `json:"launch"`
	Lease         string            `json:"lease"`
	PlanDigest    string            `json:"plan_digest"`
	Host          FileIdentity      `json:"host"`
	Harness       FileIdentity      `json:"harness"`
	Wrapper       FileIdentity      `json:"wrapper"`
	Launcher      FileIdentity      `json:"launcher"`
	Workspace     DirIdentity       `json:"workspace"`
	Argv          []string          `json:"argv"`        // argv[0] included
	Environment   map[string]string `json:"environment"` // all of it
	Overlay       string            `json:"overlay"`
	Terminal      TerminalSpec      `json:"terminal"`
	ReportPath    string            `json:"report_path"`
	Expires       time.Time         `json:"expires"` // a manifest found later is refused
	FastFailureMS int               `json:"fast_failure_ms"`
	GraceMS       int               `json:"grace_ms"` // how long the backlog outlives a fast failure
}

// TerminalSpec is the terminal relay of a launch.
type TerminalSpec struct {
	Socket      string `json:"socket"`
	TokenSHA256 string `json:"token_sha256"` // hex
	Backlog     int    `json:"backlog"`      // bytes
	Rows        uint16 `json:"rows"`
	Cols        uint16 `json:"cols"`
}

// Stages of a host report.
const (
	StageVerified = "verified" // everything matched, the harness is about to run
	StageRefused  = "refused"  // something differed; Code says what
	StageRunning  = "running"
	StageExited   = "exited"
)

// HostReport is what sophia-host last said, a small file that it replaces
// atomically at each stage.
type HostReport struct {
	Launch     string    `json:"launch"`
	Stage      string    `json:"stage"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
	HarnessPID int       `json:"harness_pid,omitempty"`
	ExitCode   int       `json:"exit_code,omitempty"`
	Signal     string    `json:"signal,omitempty"`
	Stopped    bool      `json:"stopped,omitempty"` // the host was told to end: its unit was stopped
	At         time.Time `json:"at"`
}
