package abi

import (
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
)

func TestProblemsOfAManifestAreAllListed(t *testing.T) {
	m, err := DecodeManifest([]byte(`{"abi":7,"tools":[{"name":"a b"}],"requires":["tool.travel","time"],"health":[{"export":"describe"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	problems := m.Problems()
	for _, says := range []string{"this host speaks 1", "no name", `tool name "a b"`, `the operation "time"`, `health call of "describe"`} {
		if !slices.ContainsFunc(problems, func(err error) bool { return strings.Contains(err.Error(), says) }) {
			t.Errorf("no problem says %q: %v", says, problems)
		}
	}
}

func TestCompleteManifestsAreRead(t *testing.T) {
	m := &Manifest{ABI: Version, Name: "n", Tools: []ToolInfo{{Name: "t", Export: "count"}}}
	if err := m.Complete(); err != nil {
		t.Fatal(err)
	}
	read, err := ReadManifest(m.JSON())
	if err != nil || read.Tool("t") == nil || read.Tool("t").Export != "count" {
		t.Errorf("%s is read as %+v, %v", m.JSON(), read, err)
	}
	if got := string(m.Tool("t").Spec().Parameters); got != textParameters {
		t.Errorf("a function without a schema takes %s, want one text", got)
	}
	if err := (&Manifest{}).Complete(); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a manifest without anything: %v, want invalid_argument", err)
	}
}

func TestNeedsAreTheExportsOfTheParts(t *testing.T) {
	yes := true
	m := &Manifest{Tools: []ToolInfo{{Name: "f", Export: "f"}}, Routers: []PartInfo{{Name: "r"}}, Providers: []PartInfo{{Name: "c", Observe: &yes}}}
	if got, want := m.Needs(), []Export{Route, Provide, Observe}; !slices.Equal(got, want) {
		t.Errorf("Needs = %v, want %v", got, want)
	}
}

func TestExportsAreFoundByName(t *testing.T) {
	for e := range ExportCount {
		if got, ok := ExportNamed(strings.TrimPrefix(e.String(), ExportPrefix)); !ok || got != e {
			t.Errorf("ExportNamed finds %v, %v for %v", got, ok, e)
		}
	}
	if _, ok := ExportNamed("agenthost_tool"); ok {
		t.Error("a name with the prefix is found")
	}
}

func TestOperationsHaveAPrice(t *testing.T) {
	for _, op := range Operations() {
		if price, known := OperationPrice(op, 0); !known || price <= 0 {
			t.Errorf("OperationPrice(%s) = %d, %v", op, price, known)
		}
	}
	if _, known := OperationPrice("time.travel", 10); known {
		t.Error("an unknown operation has a price")
	}
	short, _ := OperationPrice("tokens.count", 0)
	if long, _ := OperationPrice("tokens.count", 10); long-short != 640 {
		t.Errorf("10 bytes to count cost %d, want 640", long-short)
	}
}

// FuzzManifest reads any manifest: what is taken is well-formed, and is read the
// same from what it was kept as.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"abi":1,"name":"constant","tools":[{"name":"t","description":"","parameters":{}}],"processors":[{"name":"p"},{"name":"o","input":"outline"}],"routers":[{"name":"r"}],"providers":[{"name":"c"}],"permissions":{"state":"write","messages":true}}`))
	f.Add([]byte(`{"abi":1,"name":"ops","tools":[{"name":"t","description":""}],"permissions":{"state":"write","kv":"write","model":true,"queue":true,"http":[{"scheme":"http","host":"127.0.0.1","port":80,"methods":["GET","POST"]}],"secrets":[{"name":"KEY","hosts":["http://127.0.0.1"]}]}}`))
	f.Add([]byte(`{"abi":1,"name":"n","tools":[{"name":"a"},{"name":"a"}],"requires":["kv.get"]}`))
	f.Add([]byte(`{"abi":1,"name":"n","permissions":{"http":[{"host":"*.*"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ReadManifest(raw)
		if err != nil {
			if code := fault.CodeOf(err); code != fault.InvalidArgument && code != fault.FailedPrecondition {
				t.Errorf("%q is refused with %q: %v", raw, code, err)
			}
			return
		}
		if _, err := m.Permissions.Policy(); err != nil {
			t.Errorf("%q asks for what makes no policy: %v", raw, err)
		}
		again, err := ReadManifest(m.JSON())
		if err != nil || again.Name != m.Name || len(again.Tools) != len(m.Tools) || len(again.Permissions.Widens(m.Permissions)) > 0 {
			t.Errorf("%q is read again as %+v, %v", raw, again, err)
		}
	})
}
