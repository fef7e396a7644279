package plugin

import (
	"errors"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/trapstack"
	"github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"
)

// hostPanic stands for a panic of Go's runtime in a function that a guest imports:
// its words concern the program only, so no caller reads them.
const hostPanic = "a function that it imports failed"

// failure turns wazero's words for a call that did not return into an error of ours. Of
// wazero's stack trace it has the names of the innermost functions, if the module has names
// and the plugin has not said itself why it ends; the whole trace is for the plugin's log.
func (inst *instance) failure(err error) error {
	if stopped := inst.meter.Stopped(); stopped != nil {
		return stopped
	}
	subject := inst.meter.Subject()
	inst.plugin.runtime.opts.Logger.Debug("plugin call failed", "plugin", inst.plugin.id, "tenant", inst.tenant, "export", inst.meter.Export(), "error", err)
	var exit *sys.ExitError
	if errors.As(err, &exit) && inst.wasi.LastWords() == "" {
		return host.Errorf(host.Internal, "%s exited with code %d", subject, exit.ExitCode())
	}
	what, _, _ := strings.Cut(err.Error(), "\n")
	what = strings.TrimPrefix(what, "wasm error: ")
	if panicked := runtime.Error(nil); errors.As(err, &panicked) {
		what = hostPanic // the full text is in the log
	}
	if words := inst.wasi.LastWords(); words != "" {
		what = words
	} else if functions := inst.trappedIn(err); len(functions) > 0 {
		what += " in " + strings.Join(functions, ", called by ")
	}
	if words := inst.extism.ErrorText(); words != "" { // it was about to say why
		what += ": " + clean(words)
	}
	if inst.guest.memoryFull(inst.call.limits.MemoryBytes) || strings.Contains(what, "out of memory") {
		return host.Errorf(host.ResourceExhausted, "%s ran out of memory under the limit MemoryBytes of %d: %s",
			subject, inst.call.limits.MemoryBytes, what).WithHint("raise the limit, or give the plugin less to do")
	}
	return host.Errorf(host.Internal, "%s trapped: %s", subject, what)
}

// trappedIn returns the functions of the guest in which a call has trapped, the innermost
// first.
func (inst *instance) trappedIn(err error) []string {
	fn := inst.callStack.fn
	if fn == nil {
		return nil
	}
	return trapstack.Functions(err.Error(), fn.Definition().ModuleName(), wasmmeter.ImportModule)
}
