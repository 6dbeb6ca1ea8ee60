package engine

import (
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	v8 "rogchap.com/v8go"

	"sophia/actors/isolates/script"
	"sophia/actors/isolates/wire"
	"sophia/messages"
)

// host are the functions that the prelude calls. Their arguments come from the
// prelude alone and are numbers, booleans and strings.
func (e *Engine) host() map[string]v8.FunctionCallback {
	return map[string]v8.FunctionCallback{
		"hook": func(*v8.FunctionCallbackInfo) *v8.Value {
			if !e.trial { // the isolate has it already
				installHeapHook()
			}
			return nil
		},

		"call": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			a := info.Args()
			e.calls++
			e.write(wire.Frame{Kind: wire.Call, ID: uint32(a[0].Integer()), Name: a[1].String(), Payload: []byte(a[2].String())})
			return nil
		},

		"log": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			// The prelude counts characters and allows one line more, which says so.
			if line := info.Args()[0].String(); e.lines <= LogLines && e.bytes <= 4*LogBytes {
				e.lines++
				e.bytes += len(line)
				e.write(wire.Frame{Kind: wire.Log, Payload: []byte(line)})
			}
			return nil
		},

		"end": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			a := info.Args()
			if a[0].Boolean() {
				if !e.over {
					e.over, e.result = true, wire.Frame{Kind: wire.Done, Payload: []byte(a[1].String())}
				}
				return nil
			}
			var bad messages.RunError
			if err := json.Unmarshal([]byte(a[1].String()), &bad); err != nil {
				bad = messages.RunError{Kind: messages.KindRuntime, Name: "Error", Message: "The thrown value cannot be shown"}
			}
			bad.Stack = script.Frames(a[2].String())
			e.fail(&bad)
			return nil
		},

		"timer": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			id := int(info.Args()[0].Integer())
			wait := time.Duration(info.Args()[1].Number() * float64(time.Millisecond))
			e.timers[id] = time.AfterFunc(wait, func() { e.fired <- id })
			return nil
		},

		"untimer": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			id := int(info.Args()[0].Integer())
			if t := e.timers[id]; t != nil {
				t.Stop()
				delete(e.timers, id)
			}
			return nil
		},

		"uuid": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			var b [16]byte
			if _, err := unix.Getrandom(b[:], 0); err != nil { // never, for so few bytes: getrandom(2)
				return nil
			}
			b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, version 4
			return e.text(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
		},

		"url": func(info *v8.FunctionCallbackInfo) *v8.Value {
			defer info.Release()
			return e.text(parseURL(info.Args()[0].String(), info.Args()[1].String()))
		},
	}
}

func (e *Engine) text(s string) *v8.Value {
	v, err := v8.NewValue(e.iso, s)
	if err != nil {
		return nil
	}
	return v
}
