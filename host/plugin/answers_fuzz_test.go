package plugin

// Scenario: a guest answers with arbitrary bytes in each of its exports.

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
)

// sayingEngine is an engine whose every export answers the same.
type sayingEngine struct {
	output []byte
	failed bool
}

func (e *sayingEngine) Call(context.Context, *EngineCall) ([]byte, bool, error) {
	return e.output, e.failed, nil
}

func (e *sayingEngine) Close() error { return nil }

// FuzzAnswers has a guest say anything in each export: what comes of it is an
// error with a code, unless it is one JSON object, and never a panic.
func FuzzAnswers(f *testing.F) {
	for e, output := range map[abi.Export]string{
		abi.Tool:    `{"content":{"a":1},"state":[{"op":"add","path":"/a","value":1}],"artifacts":[{"name":"n","parts":[{"type":"text","text":"x"}]}]}`,
		abi.Process: `{"edits":[{"drop":[0,1]},{"insert":{"at":0,"message":{"role":"user","parts":[{"type":"text","text":"x"}]}}}],"report":{"n":1}}`,
		abi.Route:   `{"next":["a"],"reason":"b","state":[]}`,
		abi.Provide: `{"instructions":"x","messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}],"tools":[]}`,
		abi.Observe: `{"state":[{"op":"remove","path":"/a"}]}`,
	} {
		f.Add(uint8(e), []byte(output), false)
		f.Add(uint8(e), []byte(`{"code":"not_found","message":"none","hint":"look","retryable":true}`), true)
	}
	f.Add(uint8(abi.Process), []byte(`{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]}`), false)
	f.Add(uint8(abi.Process), []byte(`{"edits":[{"drop_part":[0,0]},{"replace":{"at":0,"message":{"role":"user","parts":[]}}}]}`), false)
	f.Add(uint8(abi.Tool), []byte(`{"question":{"text":"sure?"}}`), false)
	f.Add(uint8(abi.Route), []byte(`{"delegate":"default"}`), false)

	p := loadConstant(f, startRuntime(f, &Options{Logger: slog.New(slog.DiscardHandler)}), everyKind, nil)
	engine := &sayingEngine{}
	p.module.engine = engine
	for e := range p.module.offers {
		p.module.offers[e] = true
	}
	f.Fuzz(func(t *testing.T, n uint8, output []byte, failed bool) {
		e := abi.Tool + abi.Export(n)%(abi.ExportCount-abi.Tool)
		engine.output, engine.failed = output, failed
		_, err := ask(t, p, e, nil)
		switch code := host.CodeOf(err); {
		case err != nil && !code.Valid():
			t.Errorf("%s says %q: %v has code %q", e, output, err, code)
		case err == nil && failed:
			t.Errorf("%s fails with %q, and there is no error", e, output)
		case err == nil && (!json.Valid(output) || bytes.TrimSpace(output)[0] != '{'):
			t.Errorf("%s says %q, and there is no error", e, output)
		}
		if err := abi.NewGuestError(p.id, e.String(), output); !host.CodeOf(err).Valid() {
			t.Errorf("an error object %q becomes %v", output, err)
		}
	})
}
