package library_test

// Scenario: tenants and an operator do anything in any order, and no tenant sees, calls or
// changes a plugin of another.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func TestTenantsNeverSeeEachOthersPlugins(t *testing.T) {
	owners := []string{"", "acme", "acm", "umbrella"}
	ids := []string{"p", "pp", "q"}
	modules, digests := map[string][2][]byte{}, map[string][2]string{}
	for _, owner := range owners {
		var wasm [2][]byte
		var digest [2]string
		for n := range wasm {
			wasm[n] = marked("echo", fmt.Sprintf("secret of %s %d", owner, n))
			in, err := plugin.Inspect(wasm[n])
			if err != nil {
				t.Fatal(err)
			}
			digest[n] = in.Digest
		}
		modules[owner], digests[owner] = wasm, digest
	}
	module := func(owner string, n int) []byte { return modules[owner][n] }
	rapid.Check(t, func(rt *rapid.T) {
		h := newHost(t, testdriver.New(t), nil)
		defer h.stop(t)
		model := map[string]map[string]string{} // the digest that serves, by owner and id
		for _, owner := range owners {
			model[owner] = map[string]string{}
		}
		// check holds a result to its owner: it may name neither modules nor tenants of others.
		check := func(owner string, v any, err error) {
			raw, marshalErr := json.Marshal(v)
			if marshalErr != nil {
				rt.Fatal(marshalErr)
			}
			text := string(raw)
			if err != nil {
				text += err.Error()
			}
			for _, other := range owners {
				for _, digest := range digests[other] {
					if other != owner && strings.Contains(text, digest) {
						rt.Fatalf("%q sees the digest of a module of %q: %s", owner, other, text)
					}
				}
				if other != owner && other != "" && other != "acm" && strings.Contains(text, other) {
					rt.Fatalf("%q sees the name of %q: %s", owner, other, text)
				}
			}
		}
		owner := rapid.SampledFrom(owners)
		id := rapid.SampledFrom(ids)
		rt.Repeat(map[string]func(*rapid.T){
			"upload": func(rt *rapid.T) {
				o, i, n := owner.Draw(rt, "owner"), id.Draw(rt, "id"), rapid.IntRange(0, 1).Draw(rt, "n")
				taken := false
				for _, other := range owners {
					_, has := model[other][i]
					taken = taken || has && other != o && (o == "" || other == "")
				}
				v, err := h.Upload(t.Context(), o, i, bytes.NewReader(module(o, n)))
				check(o, v, err)
				if taken {
					if fault.CodeOf(err) != fault.AlreadyExists {
						rt.Fatalf("Upload of %q under a taken id: %v", o, err)
					}
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				if _, has := model[o][i]; !has {
					model[o][i] = ""
				}
				if rapid.Bool().Draw(rt, "activate") {
					p, err := h.Activate(t.Context(), o, i, v.Digest)
					check(o, p, err)
					if err != nil {
						rt.Fatal(err)
					}
					model[o][i] = v.Digest
				}
			},
			"take another's version": func(rt *rapid.T) {
				o, other, i := owner.Draw(rt, "owner"), owner.Draw(rt, "other"), id.Draw(rt, "id")
				in, _ := plugin.Inspect(module(other, 0))
				if o == other {
					return
				}
				for _, try := range []func() (any, error){
					func() (any, error) { return h.Activate(t.Context(), o, i, in.Digest) },
					func() (any, error) { return h.Accept(t.Context(), o, i, in.Digest) },
					func() (any, error) { return h.RemoveVersion(t.Context(), o, i, in.Digest) },
					func() (any, error) { return h.Manifest(t.Context(), o, i, in.Digest) },
				} {
					if _, err := try(); fault.CodeOf(err) != fault.NotFound {
						rt.Fatalf("%q takes a version of %q: %v", o, other, err)
					}
				}
			},
			"remove": func(rt *rapid.T) {
				o, i := owner.Draw(rt, "owner"), id.Draw(rt, "id")
				err := h.Remove(t.Context(), o, i)
				check(o, nil, err)
				if _, has := model[o][i]; has != (err == nil) {
					rt.Fatalf("Remove(%q, %q): %v", o, i, err)
				}
				delete(model[o], i)
			},
			"": func(rt *rapid.T) {
				for _, o := range owners {
					list, _, err := h.List(t.Context(), o, "", 0)
					check(o, list, err)
					var got []string
					for _, p := range list {
						got = append(got, p.ID)
					}
					if want := slices.Sorted(maps.Keys(model[o])); err != nil || !slices.Equal(got, want) {
						rt.Fatalf("List(%q) = %v, %v; want %v", o, got, err, want)
					}
					for item, err := range h.Export(t.Context(), o) {
						check(o, item, err)
					}
					for _, i := range ids {
						want := model[o][i]
						if want == "" {
							want = model[""][i]
						}
						if got := serving(h, o, i); got != want {
							rt.Fatalf("%q calls %q under %q, want %q", o, got, i, want)
						}
					}
				}
			},
		})
	})
}
