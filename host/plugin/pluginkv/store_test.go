package pluginkv_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/pluginkv"
)

// The store does what a map does that is sorted for each list.
func TestTheStoreIsASortedMap(t *testing.T) {
	ctx := t.Context()
	owner := plugin.Owner{Tenant: "acme", Plugin: "p"}
	rapid.Check(t, func(t *rapid.T) {
		s, model := pluginkv.New(kv.NewMemory(), nil), map[string]string{}
		key := rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat("k", 1+rapid.IntRange(0, 2).Draw(t, "length")) + fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "n"))
		})
		for i := range 50 {
			if _, err := s.Put(ctx, owner, fmt.Sprint("k", i), nil, plugin.PutOptions{Quota: 1 << 30}); err != nil {
				t.Fatal(err)
			}
			model[fmt.Sprint("k", i)] = ""
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.StringN(0, 5, 5).Draw(t, "value")
				if _, err := s.Put(ctx, owner, k, []byte(v), plugin.PutOptions{Quota: 1 << 30}); err != nil {
					t.Fatal(err)
				}
				model[k] = v
			},
			"delete": func(t *rapid.T) {
				k := key.Draw(t, "key")
				if err := s.Delete(ctx, owner, k, nil); err != nil {
					t.Fatal(err)
				}
				delete(model, k)
			},
			"delete many": func(t *rapid.T) {
				prefix := "k" + fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "digit"))
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, prefix) {
						if err := s.Delete(ctx, owner, k, nil); err != nil {
							t.Fatal(err)
						}
						delete(model, k)
					}
				}
			},
			"list": func(t *rapid.T) {
				o := plugin.ListOptions{Prefix: key.Draw(t, "prefix"), After: key.Draw(t, "after"), Limit: rapid.IntRange(1, 50).Draw(t, "limit"), MaxBytes: 1 << 20, Values: true}
				o.Prefix = o.Prefix[:rapid.IntRange(0, len(o.Prefix)).Draw(t, "cut")]
				var want []string
				for _, k := range slices.Sorted(maps.Keys(model)) {
					if strings.HasPrefix(k, o.Prefix) && k > o.After {
						want = append(want, k+"="+model[k])
					}
				}
				items, more, err := s.List(ctx, owner, o)
				var got []string
				for _, it := range items {
					got = append(got, it.Key+"="+string(it.Value))
				}
				if all := want; err != nil || more != (len(all) > o.Limit) || !slices.Equal(got, all[:min(len(all), o.Limit)]) {
					t.Fatalf("list %+v: %v, more %v, %v; want %v", o, got, more, err, all)
				}
			},
		})
	})
}
