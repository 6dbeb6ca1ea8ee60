package compile

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"runtime"

	"sophia/actors/isolates/wire"
)

// Warm compiles a snippet of its own. What a first compilation builds (tables, its
// stack, the heap) is there then before anybody waits for it.
func Warm() {
	Compile("const n: number = await f(); ({ n })")
	runtime.GC()
}

// Serve answers every Run frame, whose payload is a snippet, with Done, whose
// payload is a script.Program, or with Failed, whose payload is a
// messages.RunError. It returns nil at the end of in. Between two of them it
// collects its garbage: memory that was used before costs a compilation a fraction
// of what memory costs that was never touched.
func Serve(in io.Reader, out io.Writer) error {
	for frames := bufio.NewReader(in); ; {
		f, err := wire.Read(frames)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		program, bad := Compile(string(f.Payload))
		if bad != nil {
			err = reply(out, wire.Failed, bad)
		} else {
			err = reply(out, wire.Done, program)
		}
		if err != nil {
			return err
		}
		if frames.Buffered() == 0 {
			runtime.GC()
		}
	}
}

func reply(out io.Writer, kind wire.Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return wire.Write(out, wire.Frame{Kind: kind, Payload: b})
}
