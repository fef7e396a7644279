package extism

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
	"github.com/agenthost/agenthost/host/plugin/internal/linearmem"
)

// fakeHost answers every operation with one response.
type fakeHost struct {
	response string
	asked    []string
	logged   []string
}

func (h *fakeHost) Operate(op string, request []byte) ([]byte, error) {
	h.asked = append(h.asked, op+" "+string(request))
	return []byte(h.response), nil
}

func (h *fakeHost) Answer(op string, request []byte) []byte {
	out, _ := h.Operate(op, request)
	return out
}

func (h *fakeHost) Log(_ int, text []byte) { h.logged = append(h.logged, string(text)) }

type freeAccount struct{}

func (freeAccount) ChargeInstructions(int64, time.Time) error { return nil }

// guest calls the functions of a State as a guest does.
type guest struct {
	*State
	meter *callmeter.Meter
	t     testing.TB
}

func newGuest(t testing.TB, h Host, opts *Options) *guest {
	t.Helper()
	shared := &callmeter.Host{Scheduler: fairsched.New(1, 1), Uninterruptible: fairsched.New(1, math.MaxInt), Blameless: func(err error) error { return err }}
	flow, err := shared.Scheduler.Enter(context.Background(), "acme", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	meter := callmeter.New(shared, "p", nil)
	meter.SetPayer(callmeter.Payer{Tenant: "acme", Account: freeAccount{}, Flow: flow})
	meter.Begin(&callmeter.Call{Context: context.Background(), Export: "run", Start: time.Now(), Timeout: time.Minute,
		Instructions: math.MaxInt64, Limits: &callmeter.LimitNames{Timeout: "Timeout", Instructions: "Instructions"}})
	s := New(opts, &meter, h, &linearmem.Budget{Limit: 1 << 30}, flow)
	t.Cleanup(s.Close)
	return &guest{s, &meter, t}
}

// call returns the result of a function, or why it stopped the guest.
func (g *guest) call(name string, params ...uint64) (result uint64, err error) {
	g.t.Helper()
	all := slices.Concat(Functions(), UserFunctions())
	i := slices.IndexFunc(all, func(f Function) bool { return f.Name == name })
	if i < 0 || len(params) != len(all[i].Params) {
		g.t.Fatalf("there is no function %s of %d parameters", name, len(params))
	}
	defer func() {
		if recover() != nil {
			err = g.meter.Stopped()
		}
	}()
	stack := append(params, 0)
	all[i].Call(g.State, stack)
	return stack[0], nil
}

// must is call of a function that does not stop the guest.
func (g *guest) must(name string, params ...uint64) uint64 {
	g.t.Helper()
	v, err := g.call(name, params...)
	if err != nil {
		g.t.Fatalf("%s: %v", name, err)
	}
	return v
}

// block returns the offset of a block with a text.
func (g *guest) block(text string) uint64 {
	g.t.Helper()
	at := g.must("alloc", uint64(len(text)))
	for i := range len(text) {
		g.must("store_u8", at+uint64(i), uint64(text[i]))
	}
	return at
}

func (g *guest) text(at uint64) string { return string(g.memory.blocks.bytes(at)) }

func TestOutputIsKeptWhenItsBlockIsFreed(t *testing.T) {
	g := newGuest(t, &fakeHost{}, &Options{BlockBytes: 1 << 20})
	g.Begin("acme", nil, Limits{OutputBytes: 5})
	at := g.block("hello world")
	g.must("output_set", at, 5)
	g.must("free", at)
	if got := string(g.TakeOutput()); got != "hello" {
		t.Errorf("the output is %q, want %q", got, "hello")
	}
	at = g.block("hello world")
	if _, err := g.call("output_set", at, 6); host.CodeOf(err) != host.ResourceExhausted || !strings.Contains(err.Error(), "OutputBytes of 5") {
		t.Errorf("an output over the limit: %v", err)
	}
}

func TestInputIsReadWithAndWithoutItsBlock(t *testing.T) {
	g := newGuest(t, &fakeHost{}, &Options{BlockBytes: 1 << 20})
	g.Begin("acme", []byte("12345678"), Limits{})
	if got := g.must("input_load_u64", 0); got != 0x3837363534333231 {
		t.Errorf("input_load_u64 gives %x", got)
	}
	at := g.must("input_offset")
	g.must("store_u8", at, 'x')
	if got := g.must("input_load_u8", 0); got != 'x' || g.must("input_load_u8", 8) != 0 {
		t.Errorf("the first byte is %#x after the guest has changed it", got)
	}
	if _, err := g.call("input_load_u64", 1); host.CodeOf(err) != host.Internal {
		t.Errorf("eight bytes from offset 1 of 8: %v, want internal", err)
	}
}

func TestVariablesAreOneTenantsAndBounded(t *testing.T) {
	g := newGuest(t, &fakeHost{}, &Options{BlockBytes: 1 << 20})
	g.Begin("acme", nil, Limits{VarBytes: 100})
	g.must("var_set", g.block("k"), g.block("value"))
	if got := g.text(g.must("var_get", g.block("k"))); got != "value" || !g.HasOwn() {
		t.Errorf("the variable is %q", got)
	}
	if _, err := g.call("var_set", g.block("l"), g.block("value")); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("a second variable: %v, want resource_exhausted", err)
	}
	g.Begin("other", nil, Limits{VarBytes: 100})
	if at := g.must("var_get", g.block("k")); at != 0 {
		t.Errorf("another tenant reads %q", g.text(at))
	}
}

func TestConfigErrorsLogsAndOperationsPassThroughBlocks(t *testing.T) {
	h := &fakeHost{response: `{"ok":{}}`}
	g := newGuest(t, h, &Options{BlockBytes: 1 << 20, Config: map[string]string{"unit": "metric"}})
	g.Begin("acme", nil, Limits{})
	if got := g.text(g.must("config_get", g.block("unit"))); got != "metric" {
		t.Errorf("config_get gives %q", got)
	}
	g.must("error_set", g.block("broken"))
	if got := g.ErrorText(); got != "broken" {
		t.Errorf("the error is %q", got)
	}
	g.must("log_warn", g.block("careful"))
	got := g.text(g.must("agenthost_call", g.block("kv.get"), g.block(`{"key":"k"}`)))
	if got != h.response || !slices.Equal(h.asked, []string{`kv.get {"key":"k"}`}) || !slices.Equal(h.logged, []string{"careful"}) {
		t.Errorf("agenthost_call gives %q; the host was asked %q and logged %q", got, h.asked, h.logged)
	}
	if _, err := g.call("agenthost_call", g.block(strings.Repeat("x", maxOperationName+1)), 0); host.CodeOf(err) != host.Internal {
		t.Errorf("a name that is too long: %v, want internal", err)
	}
}

func TestFetchGivesBodyStatusAndHeaders(t *testing.T) {
	h := &fakeHost{response: `{"status":203,"headers":[{"name":"A","value":"1"},{"name":"a","value":"2"}],"body":"aGk=","url":"http://x/"}`}
	g := newGuest(t, h, &Options{BlockBytes: 1 << 20, HTTPBytes: 2})
	g.Begin("acme", nil, Limits{})
	body := g.must("http_request", g.block(`{"url":"http://x","headers":{"Host":"y","b":"2"}}`), 0)
	if got := g.text(body); got != "hi" || g.must("http_status_code") != 203 {
		t.Errorf("the body is %q", got)
	}
	if got := g.text(g.must("http_headers")); got != `{"a":"1,2"}` {
		t.Errorf("the headers are %s", got)
	}
	if want := `http.fetch {"method":"GET","url":"http://x","headers":[{"name":"b","value":"2"}],"redirects":10}`; h.asked[0] != want {
		t.Errorf("the host was asked\n%s, want\n%s", h.asked[0], want)
	}
	g.opts.HTTPBytes = 1
	if _, err := g.call("http_request", g.block(`{"url":"http://x"}`), 0); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("a body over HTTPBytes: %v, want resource_exhausted", err)
	}
}
