package terminal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Protocol is the version in a Hello.
const Protocol = 2

// MaxFrame bounds a frame's payload, in bytes.
const MaxFrame = 64 << 10

// Type is a frame's type. A frame is the type (1 byte), the payload's length
// (4 bytes, big endian) and the payload.
type Type byte

const (
	// From the viewer.
	FrameHello  Type = 'h' // Hello as JSON: the first frame; the viewer's terminal may come with it
	FrameTail   Type = 't' // instead of Hello: the backlog as plain text, no viewer
	FrameInput  Type = 'i' // keystrokes, of a viewer whose terminal did not come
	FrameResize Type = 'r' // Size
	// From the relay.
	FrameWelcome Type = 'w' // empty: attached
	FrameRefused Type = 'x' // Refusal as JSON; the connection ends
	FrameOutput  Type = 'o' // terminal bytes, to the same viewer, or of a tail the text
	FrameUndo    Type = 'u' // what takes back the modes that are set by now, should the relay not come to it
	FrameLeft    Type = 'l' // empty: detached, and the modes are taken back; the connection ends
	FrameExit    Type = 'e' // Exit as JSON, and the modes are taken back; the connection ends
)

// Hello asks to attach. SCM_RIGHTS with it, unix(7), carries a descriptor of the
// viewer's terminal, opened for it and not to block: the relay then reads and
// writes there, and frames carry sizes only.
type Hello struct {
	Version int           `json:"version"`
	Token   []byte        `json:"token"`
	Leave   Leave         `json:"leave"`
	Line    *unix.Termios `json:"line,omitempty"` // how that terminal was before, should the viewer not come to restore it
	Size
}

// Size is a terminal's size in cells.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Refusal says why a viewer was not attached, as a problem.Error.
type Refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Exit says how the harness ended.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
}

// ErrFrame is returned for what is no frame of this protocol.
var ErrFrame = errors.New("terminal: malformed frame")

// WriteFrame writes one frame in one write.
func WriteFrame(w io.Writer, t Type, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(payload))
	}
	b := make([]byte, 5+len(payload))
	b[0] = byte(t)
	binary.BigEndian.PutUint32(b[1:], uint32(len(payload)))
	copy(b[5:], payload)
	_, err := w.Write(b)
	clear(b) // a Hello holds the token
	return err
}

// ReadFrame reads one frame of at most most bytes of payload. The payload is
// valid until the next call with the same buf, which it grows as needed.
func ReadFrame(r io.Reader, buf *[]byte, most int) (Type, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	t := Type(head[0])
	switch t {
	case FrameHello, FrameTail, FrameInput, FrameResize, FrameWelcome, FrameRefused, FrameOutput, FrameUndo, FrameLeft, FrameExit:
	default:
		return 0, nil, fmt.Errorf("%w: type %#x", ErrFrame, head[0])
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n < 0 || n > min(most, MaxFrame) {
		return 0, nil, fmt.Errorf("%w: %d bytes of payload", ErrFrame, n)
	}
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	p := (*buf)[:n]
	if _, err := io.ReadFull(r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, p, nil
}

// Encode is a size's payload.
func (s Size) Encode() []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Rows), s.Cols)
}

// DecodeSize reads a Resize's payload.
func DecodeSize(b []byte) (Size, error) {
	if len(b) != 4 {
		return Size{}, fmt.Errorf("%w: a size has 4 bytes", ErrFrame)
	}
	return Size{Rows: binary.BigEndian.Uint16(b), Cols: binary.BigEndian.Uint16(b[2:])}, nil
}

// MinRows and MinCols are the smallest size that a PTY is given: full-screen
// programs fail or fold up in less, and the viewer is told nothing either way.
const (
	MinRows = 10
	MinCols = 40
	maxSide = 1000
)

// Clamp is the size that the PTY gets for a viewer of this size. A viewer
// without a size (0) leaves the default.
func (s Size) Clamp(def Size) Size {
	if s.Rows == 0 || s.Cols == 0 {
		s = def
	}
	return Size{Rows: min(max(s.Rows, MinRows), maxSide), Cols: min(max(s.Cols, MinCols), maxSide)}
}

func decodeJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}
