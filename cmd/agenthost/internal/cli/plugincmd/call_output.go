package plugincmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
)

// callReport is the output of --report.
type callReport struct {
	Instructions int64 `json:"instructions"`
	DurationUS   int64 `json:"duration_us"`
	PeakMemory   int64 `json:"peak_memory_bytes"`
	HostCalls    int   `json:"host_calls"`
	OutputBytes  int   `json:"output_bytes"`
}

func reportOf(c *host.Cost) callReport {
	if c == nil {
		c = &host.Cost{}
	}
	return callReport{Instructions: c.Instructions, DurationUS: c.DurationUS, PeakMemory: c.PeakMemory, HostCalls: c.HostCalls, OutputBytes: c.OutputBytes}
}

// callResult is the output of call --json.
type callResult struct {
	Output json.RawMessage `json:"output"` // null for an observer without any
	Failed bool            `json:"failed"` // the output is an error object
	Report json.RawMessage `json:"report"` // as of --report
}

// print writes the output, which must be JSON, as the plugin wrote it. Only
// observe may answer nothing.
func (r *rawCall) print(result *plugin.CallResult) error {
	out := bytes.TrimSpace(result.Output)
	switch {
	case len(out) == 0 && r.export == "observe" && !result.GuestError:
		if !r.flags.json {
			return nil
		}
		out = []byte("null")
	case !json.Valid(out) && !slices.Contains(exports(), r.export): // of an Extism function, like a tool's result
		out, _ = json.Marshal(string(result.Output))
	case !json.Valid(out):
		return host.Errorf(host.Internal, "plugin %q: the output of %s is not JSON: %q", open.PluginID(r.file), r.export, ui.Clip(string(out))).
			WithHint("the plugin is broken; see pdk/ABI.md")
	}
	var err error
	if r.flags.json {
		err = r.printResult(out, result)
	} else {
		_, err = r.local.term.Out.Write(append(out, '\n'))
	}
	if err != nil {
		return err
	}
	if result.GuestError {
		return cli.QuietExit(host.Internal.ExitCode())
	}
	return nil
}

func (r *rawCall) printResult(output []byte, result *plugin.CallResult) error {
	var report bytes.Buffer
	if err := ui.PrintTimed(&report, reportOf(result.Cost)); err != nil {
		return err
	}
	return ui.PrintJSON(r.local.term.Out, callResult{Output: output, Failed: result.GuestError, Report: report.Bytes()})
}

// noteGrants reports the grants that have no effect.
func (r *rawCall) noteGrants(m *plugin.Manifest) {
	for _, grant := range r.granted.Missing(m.Permissions) {
		fmt.Fprintf(r.local.term.Err, "agenthost: the plugin does not ask for %q, so it does not get it\n", grant)
	}
}
