package plugin

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/guesttext"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

// linkImports instantiates the modules that guests import: the meter, WASI preview 1, and
// the five functions of the ABI.
func linkImports(ctx context.Context, wasm wazero.Runtime) error {
	meter := wasm.NewHostModuleBuilder(wasmmeter.ImportModule)
	meter.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(instanceOf(ctx).checkFuel(int64(stack[0]), int64(stack[1]), &stack[0]))
	}), []api.ValueType{i64, i64}, []api.ValueType{i64}).Export(wasmmeter.ImportCheck)
	if _, err := meter.Instantiate(ctx); err != nil {
		return err
	}
	if _, err := wasi_snapshot_preview1.Instantiate(experimental.WithFunctionListenerFactory(ctx, wasiPrices{}), wasm); err != nil {
		return err
	}
	b := wasm.NewHostModuleBuilder(importModule)
	for _, f := range []struct {
		name    string
		params  []api.ValueType
		results []api.ValueType
		fn      func(*call, api.Memory, []uint64)
	}{
		{"input_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, inputRead},
		{"output_write", []api.ValueType{i32, i32}, nil, outputWrite},
		{"host_call", []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i64}, hostCall},
		{"host_read", []api.ValueType{i32, i32, i32}, []api.ValueType{i32}, hostRead},
		{"log", []api.ValueType{i32, i32, i32}, nil, guestLog},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			f.fn(&instanceOf(ctx).call, m.Memory(), stack)
		}), f.params, f.results).Export(f.name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// clean is [guesttext.Clean].
func clean(s string) string { return guesttext.Clean(s) }

// operations answer a guest's host calls. The operations of a call depend on its
// kind: a tool has state, a processor has messages.
type operations interface {
	// operate runs one operation. Its error goes to the guest as an object.
	operate(ctx context.Context, op string, req []byte) ([]byte, error)
}

// Operations returns the names of the operations that guests can call.
func Operations() []string { return abi.Operations() }

// errorObject is an error as a guest gets it: without the text of drivers and of the
// host's own failures, which operate writes to the log. Its sentences are cut where
// they repeat what the guest has sent.
func errorObject(err error) []byte {
	e := *host.ClientError(err, "")
	e.Message, e.Hint = shorten(e.Message), shorten(e.Hint)
	b, jsonErr := json.Marshal(&e)
	if jsonErr != nil {
		return []byte(`{"code":"internal","message":"error"}`)
	}
	return b
}

// guestError is the error object that a guest returned as an error.
func guestError(id, export string, raw []byte) error {
	e, err := readGuestError(id, export, raw)
	if err != nil {
		return err
	}
	e.Message, e.Hint = shorten(clean(e.Message)), shorten(clean(e.Hint))
	return &GuestError{Plugin: id, err: e}
}

// readGuestError reads the error object that a guest returned.
func readGuestError(id, export string, raw []byte) (*host.Error, error) {
	var e struct {
		Code          host.Code
		Message, Hint string
		Retryable     bool
	}
	if err := strictjson.Unmarshal(raw, &e); err != nil || e.Message == "" {
		return nil, host.Errorf(host.Internal, "plugin %q: %s returned an error without a message", id, export)
	}
	if !e.Code.Valid() {
		e.Code = host.Internal
	}
	return &host.Error{Code: e.Code, Message: e.Message, Hint: e.Hint, Retryable: e.Retryable}, nil
}

// maxGuestMessage bounds the message and the hint of a guest's error, which go to a
// model and to the operator's log.
const maxGuestMessage = 8 << 10

// shorten cuts a text that is too long, at a character's end.
func shorten(s string) string {
	if len(s) <= maxGuestMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxGuestMessage], "") + "…"
}

// GuestError is an error that a plugin returned, as opposed to one it ran into.
type GuestError struct {
	Plugin string
	err    *host.Error
}

// Error returns the plugin's own words.
func (e *GuestError) Error() string { return e.err.Error() }

// Unwrap returns the error as a [*host.Error].
func (e *GuestError) Unwrap() error { return e.err }

// LogLine is a line that a guest wrote.
type LogLine struct {
	Plugin, Tenant, Export string
	Level                  slog.Level
	Text                   string // no control characters but \n and \t
}

var (
	_ error = (*GuestError)(nil)

	_ experimental.FunctionListenerFactory = wasiPrices{}
)
