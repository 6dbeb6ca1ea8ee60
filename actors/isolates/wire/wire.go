package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the largest frame in bytes, header included. Four MiB is half of
// the worker's heap: what is larger could not be used inside.
const MaxFrame = 4 << 20

// MaxName is the longest name in bytes.
const MaxName = 256

const header = 12

// Kind says what a frame is.
type Kind uint8

// Kinds of frames. See the package's picture for who sends which.
const (
	Ready   Kind = 1 + iota // payload: Report
	Methods                 // payload: []messages.Method
	Input                   // payload: any JSON
	Run                     // payload: the program, as text; OK: it is nothing but a function
	Began                   // the run is accepted; from here on it counts as started
	Call                    // ID, Name: tool; payload: the arguments
	Result                  // ID, OK; payload: the result, or a problem.Error
	Log                     // payload: one line of text
	Stop                    // Name: why
	Stats                   // payload: messages.RunMemory
	Done                    // payload: the returned value, empty for undefined
	Failed                  // payload: messages.RunError, its Stack as V8 gave it
	last    = Failed
)

var kinds = [...]string{"", "ready", "methods", "input", "run", "began", "call", "result", "log", "stop", "stats", "done", "failed"}

func (k Kind) String() string {
	if k < Ready || k > last {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kinds[k]
}

// Frame is one message.
type Frame struct {
	Kind    Kind
	OK      bool   // of a Result and a Run
	ID      uint32 // of a Call and its Result
	Name    string
	Payload []byte
}

// ErrMalformed is wrapped by every error about bytes that are not a frame.
var ErrMalformed = errors.New("wire: malformed frame")

const flagOK = 1

// Append appends the encoded frame to b. It refuses a frame that Read would
// refuse.
func Append(b []byte, f Frame) ([]byte, error) {
	switch {
	case f.Kind < Ready || f.Kind > last:
		return b, fmt.Errorf("%w: %v", ErrMalformed, f.Kind)
	case len(f.Name) > MaxName:
		return b, fmt.Errorf("%w: a name of %d bytes, at most %d", ErrMalformed, len(f.Name), MaxName)
	case header+len(f.Name)+len(f.Payload) > MaxFrame:
		return b, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, header+len(f.Name)+len(f.Payload), MaxFrame)
	}
	var flags byte
	if f.OK {
		flags |= flagOK
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(header-4+len(f.Name)+len(f.Payload)))
	b = append(b, byte(f.Kind), flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(f.Name)))
	b = binary.LittleEndian.AppendUint32(b, f.ID)
	b = append(b, f.Name...)
	return append(b, f.Payload...), nil
}

// Write writes one frame with a single Write call.
func Write(w io.Writer, f Frame) error {
	b, err := Append(make([]byte, 0, header+len(f.Name)+len(f.Payload)), f)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// Read reads one frame. It returns io.EOF when the stream ends between frames
// and io.ErrUnexpectedEOF when it ends inside one. The frame's bytes are its
// own.
func Read(r io.Reader) (Frame, error) {
	var h [header]byte
	if _, err := io.ReadFull(r, h[:4]); err != nil {
		return Frame{}, err
	}
	n := int64(binary.LittleEndian.Uint32(h[:4]))
	if n < header-4 || n > MaxFrame-4 {
		return Frame{}, fmt.Errorf("%w: length %d", ErrMalformed, n)
	}
	if _, err := io.ReadFull(r, h[4:]); err != nil {
		return Frame{}, noEOF(err)
	}
	f := Frame{Kind: Kind(h[4]), OK: h[5]&flagOK != 0, ID: binary.LittleEndian.Uint32(h[8:])}
	name := int64(binary.LittleEndian.Uint16(h[6:]))
	rest := n - (header - 4)
	switch {
	case f.Kind < Ready || f.Kind > last:
		return Frame{}, fmt.Errorf("%w: %v", ErrMalformed, f.Kind)
	case h[5]&^flagOK != 0:
		return Frame{}, fmt.Errorf("%w: unknown flags %#x", ErrMalformed, h[5])
	case name > MaxName || name > rest:
		return Frame{}, fmt.Errorf("%w: a name of %d bytes in %d", ErrMalformed, name, rest)
	}
	b := make([]byte, rest)
	if _, err := io.ReadFull(r, b); err != nil {
		return Frame{}, noEOF(err)
	}
	f.Name = string(b[:name])
	if rest > name {
		f.Payload = b[name:]
	}
	return f, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
