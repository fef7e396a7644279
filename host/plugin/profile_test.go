package plugin

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/guestprofile"
)

// stacksOf returns the call paths of a profile, as lines.
func stacksOf(p *guestprofile.Profile) string {
	var lines []string
	for s := range p.Stacks() {
		var names []string
		for _, f := range s.Functions {
			names = append(names, f.Name)
		}
		lines = append(lines, strings.Join(names, " > "))
	}
	return strings.Join(lines, "\n")
}

// However a call ends, its functions have the instructions that it costs, which are those
// that it costs without a profile.
func TestProfileHasTheInstructionsThatACallCosts(t *testing.T) {
	const functions = `
		func $spend - i32
		loop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end
		func $deep - i32
		local.get 0 i32.eqz if return end
		local.get 0 i32.const 1 i32.sub call $deep
		i32.const 7 call $spend
		func $traps -
		i32.const 500 call $spend unreachable`
	for name, c := range map[string]struct{ body, has string }{
		"a call that returns":                       {`i32.const 0`, ""},
		"functions one after the other":             {`i32.const 100 call $spend i32.const 30000 call $spend i32.const 0`, ""},
		"recursion deeper than a path":              {`i32.const 2000 call $deep i32.const 0`, ""},
		"a trap below other functions":              {`i32.const 3 call $deep call $traps i32.const 0`, ""},
		"a budget that ends in a function":          {`loop i32.const 1000 call $spend br 0 end unreachable`, ""},
		"a call that the host ends":                 {`i32.const 65532 i32.const 5 call $output_write i32.const 0`, "agenthost_v1.output_write"},
		"a code that the contract does not have":    {`i32.const 2`, ""},
		"host calls, output and the log":            {`i32.const 0 i32.const 9 i32.const 0 i32.const 0 call $host_call drop i32.const 0 i32.const 0 i32.const 5000 call $log i32.const 0 i32.const 60000 call $output_write i32.const 0`, "agenthost_v1.host_call"},
		"memory that the meter fills for the guest": {`i32.const 0 i32.const 0 i32.const 60000 memory.fill i32.const 5 call $spend i32.const 0`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := handWritten(t, "memory 1 4\n---\n"+c.body+functions)
			limits := Limits{Instructions: 2_000_000}
			plain, err := startRuntime(t, nil).Load(t.Context(), "plain", wasm, &LoadOptions{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			profiled, err := startRuntime(t, &Options{ProfileCalls: true}).Load(t.Context(), "profiled", wasm, &LoadOptions{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			want, plainErr := plain.Call(t.Context(), "a", "tool", []byte("input"), nil)
			profile := guestprofile.New()
			got, err := profiled.Call(t.Context(), "a", "tool", []byte("input"), &CallOptions{Profile: profile})
			if (err == nil) != (plainErr == nil) || host.CodeOf(err) != host.CodeOf(plainErr) {
				t.Fatalf("the call ends with %v, and without a profile with %v", err, plainErr)
			}
			if n := profile.Instructions(); n != got.Cost.Instructions || n != want.Cost.Instructions || n == 0 {
				t.Errorf("the functions have %d instructions, the call cost %d, and without a profile %d", n, got.Cost.Instructions, want.Cost.Instructions)
			}
			if stacks := stacksOf(profile); profile.Calls() != 1 || !strings.Contains(stacks, c.has) || strings.Contains(stacks, "agenthost_meter") {
				t.Errorf("%d calls with the stacks\n%s\nwant one that has %q", profile.Calls(), stacks, c.has)
			}
		})
	}
}

// A function has its own instructions and not those of the ones that it calls.
func TestProfileTellsFunctionsApart(t *testing.T) {
	wasm := handWritten(t, "i32.const 40000 call $spend i32.const 0\nfunc $spend - i32\nloop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end")
	p, err := startRuntime(t, &Options{ProfileCalls: true}).Load(t.Context(), "p", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	profile := guestprofile.New()
	for range 3 {
		if _, err := p.Call(t.Context(), "a", "tool", nil, &CallOptions{Profile: profile}); err != nil {
			t.Fatal(err)
		}
	}
	var outer, inner guestprofile.Stack
	for s := range profile.Stacks() {
		switch len(s.Functions) {
		case 1:
			outer = s
		case 2:
			inner = s
		}
	}
	if inner.Entered != 3 || inner.Instructions < 3*4*40_000 || outer.Entered != 3 || outer.Instructions > 3*100 {
		t.Errorf("the caller is %+v, and the function that spends %+v", outer, inner)
	}
}

// A guest that takes the names of what the meter adds hides nothing from a profile.
func TestAGuestWithNamesOfTheMeterHasAProfile(t *testing.T) {
	const module, function, functions = "agenthost_meter", "agenthost_meter.hidden", 8
	names := []byte{functions}
	for i := range byte(functions) {
		names = append(append(names, i, byte(len(function))), function...)
	}
	section := append([]byte{0, byte(len(module)) + 1, byte(len(module))}, module...)
	section = append(binary.AppendUvarint(append(section, 1), uint64(len(names))), names...)
	wasm := handWritten(t, fmt.Sprintf("custom agenthost.manifest %q\ncustom name %q\n---\n"+
		"i32.const 40000 call $spend i32.const 0\nfunc $spend - i32\nloop local.get 0 i32.const 1 i32.sub local.tee 0 br_if 0 end", toolManifest, section))
	p, err := startRuntime(t, &Options{ProfileCalls: true}).Load(t.Context(), "p", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	profile := guestprofile.New()
	if _, err := p.Call(t.Context(), "a", "tool", nil, &CallOptions{Profile: profile}); err != nil {
		t.Fatal(err)
	}
	deepest := guestprofile.Stack{}
	for s := range profile.Stacks() {
		if len(s.Functions) > len(deepest.Functions) {
			deepest = s
		}
	}
	if len(deepest.Functions) != 2 || deepest.Instructions < 4*40_000 || strings.Contains(stacksOf(profile), module) {
		t.Errorf("the stacks are\n%s\nand the deepest is %+v, want the function that spends", stacksOf(profile), deepest)
	}
}

func TestProfileNeedsARuntimeThatMakesProfiles(t *testing.T) {
	p := loadHand(t, `i32.const 0`, Limits{})
	_, err := p.Call(t.Context(), "a", "tool", nil, &CallOptions{Profile: guestprofile.New()})
	if host.CodeOf(err) != host.FailedPrecondition || !strings.Contains(err.Error(), "makes no profiles") {
		t.Errorf("a call with a profile: %v, want failed_precondition", err)
	}
}
