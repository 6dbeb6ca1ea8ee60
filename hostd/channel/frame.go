package channel

import (
	"encoding/binary"
	"encoding/json"

	"sophia/messages/problem"
	"sophia/messages/secret"
)

// Kind says what a frame is.
type Kind byte

// Kinds of frames. S: sent by the server, C: by the client.
const (
	Challenge Kind = 1 + iota // S body: nonce
	Answer                    // C body: the nonce
	Refused                   // S body: problem.Error; the connection ends
	Envelope                  // S body: messages.Envelope; secret: handle, or the deposited bearer
	Deposit                   // C secret: the proven bearer
	Deposited                 // S the deposit is kept
	Redeem                    // C body: broker.Redemption; secret: handle
	Bearer                    // S secret: bearer
	Prove                     // C body: broker.Proof; secret: bearer
	Receipt                   // S body: messages.WorkReceipt
	lastKind  = Receipt
)

// Bounds, in bytes. A frame fits in one packet well below the default socket
// buffer.
const (
	MaxBody   = 4096
	MaxSecret = 256
	MaxFrame  = headerSize + MaxBody + MaxSecret

	headerSize = 10
)

var magic = [4]byte{0xF5, 'S', 'E', 1}

// Frame is one packet. Whoever receives a frame owns its Secret.
type Frame struct {
	Kind   Kind
	Body   []byte
	Secret *secret.Secret // nil when the frame has none
}

// Of makes a frame whose body is v as JSON.
func Of(kind Kind, v any, s *secret.Secret) (Frame, error) {
	body, err := json.Marshal(v)
	return Frame{Kind: kind, Body: body, Secret: s}, err
}

// Into reads the body as JSON.
func (f Frame) Into(v any) error {
	if err := json.Unmarshal(f.Body, v); err != nil {
		return problem.Wrap(err, "frame_malformed", "a frame's body is not what its kind says")
	}
	return nil
}

// Zero drops the frame's secret.
func (f Frame) Zero() {
	if f.Secret != nil {
		f.Secret.Zero()
	}
}

// append encodes the frame behind b. The caller zeroes the result.
func (f Frame) append(b []byte) ([]byte, error) {
	if len(f.Body) > MaxBody {
		return b, problem.New("frame_too_large", "a frame's body has %d bytes; at most %d go", len(f.Body), MaxBody)
	}
	b = append(b, magic[:]...)
	b = append(b, byte(f.Kind), 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.Body)))
	if f.Secret == nil {
		b = binary.BigEndian.AppendUint16(b, 0)
		return append(b, f.Body...), nil
	}
	err := f.Secret.Use(func(s []byte) error {
		if len(s) == 0 || len(s) > MaxSecret {
			return problem.New("frame_too_large", "a frame's secret has %d bytes; 1 to %d go", len(s), MaxSecret)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, f.Body...)
		b = append(b, s...)
		return nil
	})
	return b, err
}

// parse decodes one whole packet. It moves the secret into locked memory and
// zeroes it in b.
func parse(b []byte) (Frame, error) {
	malformed := func(what string) (Frame, error) {
		return Frame{}, problem.New("frame_malformed", "a packet of %d bytes is no frame: %s", len(b), what)
	}
	if len(b) < headerSize {
		return malformed("shorter than a header")
	}
	if [4]byte(b[:4]) != magic {
		return malformed("wrong magic or version")
	}
	kind := Kind(b[4])
	if kind == 0 || kind > lastKind || b[5] != 0 {
		return malformed("unknown kind")
	}
	bodyLen, secretLen := int(binary.BigEndian.Uint16(b[6:])), int(binary.BigEndian.Uint16(b[8:]))
	if bodyLen > MaxBody || secretLen > MaxSecret {
		return malformed("over the bounds")
	}
	if len(b) != headerSize+bodyLen+secretLen {
		return malformed("its lengths do not add up")
	}
	f := Frame{Kind: kind}
	if bodyLen > 0 {
		f.Body = append([]byte(nil), b[headerSize:headerSize+bodyLen]...)
	}
	if secretLen > 0 {
		s, err := secret.New(b[headerSize+bodyLen:])
		if err != nil {
			return Frame{}, err
		}
		f.Secret = s
	}
	return f, nil
}
