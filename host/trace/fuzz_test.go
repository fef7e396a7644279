package trace

import (
	"io"
	"testing"
)

// The files are the user's own, but a disk or an editor may have been at them.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"type":"run.started","run":"r","time":"2026-01-02T03:04:05Z","data":{"thread":"t"}}` + "\n" +
		`{"type":"agent.started","agent":"a","data":{"model":"m"}}` + "\n" +
		`{"type":"model.called","data":{"round":1}}` + "\n" + `{"type":"text.delta","data":{}}` + "\n" +
		`{"type":"message","data":{"message":{"role":"assistant","parts":[{"type":"tool_call","name":"t"}]}}}` + "\n" +
		`{"type":"tool.started","data":{"id":"c","name":"t"}}` + "\n" +
		`{"type":"tool.progress","data":{"id":"c","kind":"agent","data":{"type":"agent.started"}}}` + "\n" +
		`{"type":"tool.finished","data":{"id":"c","is_error":true,"content":"x","duration_us":-1}}` + "\n" +
		`{"type":"agent.finished","data":{}}` + "\n" + `{"type":"run.finished","data":{"error":{"code":"x"}}}`))
	f.Add([]byte("\n\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		run := parse(text)
		if err := run.Write(io.Discard); err != nil {
			t.Errorf("Write: %v", err)
		}
	})
}
