package engine

import (
	"fmt"
	"io"

	"sophia/actors/isolates/wire"
)

// trial uses what snippets use: calls at once, a list result, a few methods, a
// log line, an object as the value.
const trial = "(async () => {\n" +
	"const [a, b] = await Promise.all([sophia.trial({ query: 'x', limit: 3 }), sophia.trial()]);\n" +
	"const by = new Map(a.items.map((h) => [h.id, { ...h, label: h.title.concat(': ', h.score.toFixed(2)) }]));\n" +
	"console.log('trial', a.total);\n" +
	"return { total: b.total, rows: [...by.values()].filter((h) => h.score > 0).sort((x, y) => y.score - x.score).slice(0, 2), keys: Object.keys(b) };\n})"

const trialReply = `{"items":[{"id":"doc-1","title":"A title","score":0.83},{"id":"doc-2","title":"Another","score":0.71}],"total":2,"_inbox_unread":0}`

// Warm runs a snippet of its own, in a context that is thrown away, and answers
// its calls itself. What a first run costs more than a second (tables that are
// built when they are first used, memory that is first touched) is paid while
// nobody waits: measured, that is most of a short run.
func (e *Engine) Warm() error {
	t, err := build(&Engine{iso: e.iso, out: io.Discard, trial: true})
	if err != nil {
		return err
	}
	defer t.ctx.Close()
	if _, err := t.call(t.offer, `[{"Name":"trial","Tool":"sophia.trial"}]`); err != nil {
		return err
	}
	frames := make(chan wire.Frame, 2)
	for id := range uint32(2) {
		frames <- wire.Frame{Kind: wire.Result, OK: true, ID: id + 1, Payload: []byte(trialReply)}
	}
	if err := t.Run(Job{JS: trial}, frames); err != nil {
		return err
	}
	if t.result.Kind != wire.Done && e.stopped.Load() == nil {
		return fmt.Errorf("engine: the trial run ended with %s", t.result.Payload)
	}
	return nil
}
