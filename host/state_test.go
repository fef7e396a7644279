package host_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/agenthost/agenthost/host"
)

func TestNewStateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		v     any
		limit int
		code  host.Code
	}{
		"an array":            {json.RawMessage(`[]`), 0, host.InvalidArgument},
		"a number":            {7, 0, host.InvalidArgument},
		"not JSON":            {json.RawMessage(`{"a"`), 0, host.InvalidArgument},
		"what JSON cannot be": {func() {}, 0, host.InvalidArgument},
		"too large":           {json.RawMessage(`{"a":"12345"}`), 10, host.ResourceExhausted},
		"too deep":            {json.RawMessage(`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`), 0, host.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := host.NewState(c.v, c.limit); host.CodeOf(err) != c.code {
				t.Errorf("NewState: %v (code %q), want code %s", err, host.CodeOf(err), c.code)
			}
		})
	}
}

func TestNewStateTakes(t *testing.T) {
	type typed struct {
		A int `json:"a"`
	}
	of, err := host.NewState(typed{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"nothing":           {nil, `{}`},
		"a nil map":         {map[string]any(nil), `{}`},
		"empty JSON":        {json.RawMessage(" "), `{}`},
		"a Go value":        {typed{1}, `{"a":1}`},
		"another state":     {of, `{"a":1}`},
		"JSON, made one":    {json.RawMessage(` { "b" : 1 , "a" : "<" , "b" : 2 } `), `{"a":"<","b":2}`},
		"integers, exactly": {map[string]any{"n": json.Number("9007199254740993")}, `{"n":9007199254740993}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := host.NewState(c.v, 0)
			if err != nil {
				t.Fatalf("NewState: %v", err)
			}
			if got := string(s.JSON()); got != c.want {
				t.Errorf("NewState holds %s, want %s", got, c.want)
			}
		})
	}
}

func TestStateDoesNotShareWhatItIsMadeFrom(t *testing.T) {
	mine := map[string]any{"deep": map[string]any{"list": []any{"a"}}}
	s, err := host.NewState(mine, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set("/deep/list/0", "changed"); err != nil {
		t.Fatal(err)
	}
	if got := mine["deep"].(map[string]any)["list"].([]any)[0]; got != "a" {
		t.Errorf("the caller's value became %v", got)
	}
}

func TestGetAndSet(t *testing.T) {
	s := newState(t, `{"a":{"b":[1,2]},"n":9007199254740993}`)
	var n int64
	if ok, err := s.Get("/n", &n); !ok || err != nil || n != 9007199254740993 {
		t.Errorf("Get /n = %d, %t, %v", n, ok, err)
	}
	if ok, err := s.Get("/a/b/5", &n); ok || err != nil {
		t.Errorf("Get of what is not there: %t, %v; want false, nil", ok, err)
	}
	if ok, err := s.Get("/a", &n); !ok || host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Get of an object as a number: %t, %v; want true and code %s", ok, err, host.InvalidArgument)
	}
	if err := s.Set("/a/b/-", 3); err != nil {
		t.Errorf("Set /a/b/-: %v", err)
	}
	if err := s.Set("/x/y", 3); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Set below what is not there: %v, want code %s", err, host.InvalidArgument)
	}
	if err := s.Set("", map[string]int{"all": 1}); err != nil || string(s.JSON()) != `{"all":1}` {
		t.Errorf("Set of the whole: %v, %s", err, s.JSON())
	}
	if err := s.Set("/f", func() {}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Set of a function: %v, want code %s", err, host.InvalidArgument)
	}
}

func TestPatchAtARevision(t *testing.T) {
	s := newState(t, `{"n":1}`)
	_, revision := s.Snapshot()
	ops := []host.PatchOp{{Op: "replace", Path: "/n", Value: json.RawMessage("2")}}
	if err := s.PatchAt(revision, ops); err != nil {
		t.Fatalf("PatchAt the current revision: %v", err)
	}
	if err := s.PatchAt(revision, ops); host.CodeOf(err) != host.Conflict {
		t.Errorf("PatchAt an old revision: %v, want code %s", err, host.Conflict)
	}
}

func TestUpdateStateLeavesAloneWhatItDoesNotKnow(t *testing.T) {
	type inner struct {
		Count int    `json:"count"`
		Name  string `json:"name,omitempty"`
	}
	type typed struct {
		Inner   inner             `json:"inner"`
		Pointer *inner            `json:"pointer,omitempty"`
		Plain   int               `json:"plain"`
		Names   map[string]string `json:"names,omitempty"`
		List    []inner           `json:"list,omitempty"`
	}
	for name, c := range map[string]struct {
		doc, want string
		fn        func(*typed) error
	}{
		"nothing":                       {`{"big":9007199254740993,"inner":{"x":1}}`, `{"big":9007199254740993,"inner":{"x":1}}`, func(*typed) error { return nil }},
		"a member beside unknown ones":  {`{"inner":{"count":1,"x":[1.50]}}`, `{"inner":{"count":2,"x":[1.50]}}`, func(v *typed) error { v.Inner.Count++; return nil }},
		"a member that is not there":    {`{}`, `{"plain":5}`, func(v *typed) error { v.Plain = 5; return nil }},
		"below what is not there":       {`{}`, `{"inner":{"count":1}}`, func(v *typed) error { v.Inner.Count = 1; return nil }},
		"below what is null":            {`{"inner":null}`, `{"inner":{"count":1}}`, func(v *typed) error { v.Inner.Count = 1; return nil }},
		"a pointer that was nil":        {`{"x":1}`, `{"pointer":{"count":3},"x":1}`, func(v *typed) error { v.Pointer = &inner{Count: 3}; return nil }},
		"a pointer that is now nil":     {`{"pointer":{"count":3},"x":1}`, `{"x":1}`, func(v *typed) error { v.Pointer = nil; return nil }},
		"names that are awkward":        {`{"names":{"a/b":"1"}}`, `{"names":{"":"e","a/b":"2","~":"t"}}`, func(v *typed) error { v.Names["a/b"], v.Names["~"], v.Names[""] = "2", "t", "e"; return nil }},
		"an array it does not change":   {`{"list":[{"count":1,"x":1}],"plain":1}`, `{"list":[{"count":1,"x":1}],"plain":2}`, func(v *typed) error { v.Plain++; return nil }},
		"an array that grows, as whole": {`{"list":[{"count":1,"x":1}]}`, `{"list":[{"count":1},{"count":2}]}`, func(v *typed) error { v.List = append(v.List, inner{Count: 2}); return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(t, c.doc)
			if err := host.UpdateState(s, c.fn); err != nil {
				t.Fatalf("UpdateState: %v", err)
			}
			if got := string(s.JSON()); got != c.want {
				t.Errorf("%s becomes %s, want %s", c.doc, got, c.want)
			}
		})
	}
}

func TestUpdateStateThatFailsChangesNothing(t *testing.T) {
	broken := errors.New("broken")
	s := newState(t, `{"n":1}`)
	type counter struct {
		N int    `json:"n"`
		S string `json:"s,omitempty"`
	}
	if err := host.UpdateState(s, func(c *counter) error { c.N = 2; return broken }); !errors.Is(err, broken) {
		t.Errorf("UpdateState returns %v, want %v", err, broken)
	}
	if err := host.UpdateState(s, func(c *counter) error { c.S = strings.Repeat("x", host.DefaultLimits().StateBytes); return nil }); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("UpdateState beyond the limit: %v, want code %s", err, host.ResourceExhausted)
	}
	if err := host.UpdateState(s, func(*[]int) error { return nil }); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("UpdateState as another type: %v, want code %s", err, host.InvalidArgument)
	}
	if got := string(s.JSON()); got != `{"n":1}` {
		t.Errorf("the state became %s", got)
	}
	if v, err := host.StateAs[counter](s); err != nil || v.N != 1 {
		t.Errorf("StateAs = %+v, %v", v, err)
	}
}

func TestUpdatesAtOnceAreAllCounted(t *testing.T) {
	s := newState(t, `{}`)
	type counter struct {
		N int `json:"n"`
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := host.UpdateState(s, func(c *counter) error { c.N++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := string(s.JSON()); got != `{"n":50}` {
		t.Errorf("50 updates leave %s", got)
	}
}
