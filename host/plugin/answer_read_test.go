package plugin

// These tests are inside the package: they stand in for what reads an answer.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/fairsched"
)

func TestReadingAnAnswerEndsWithItsCall(t *testing.T) {
	p := loadHand(t, `i32.const 0`, Limits{Timeout: 20 * time.Millisecond})
	wait := func(ctx context.Context, _ []byte) error {
		<-ctx.Done()
		return ctx.Err()
	}
	_, err := p.call(t.Context(), "a", abi.Tool, nil, nil, wait)
	if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(err.Error(), "limit Timeout of 20ms") {
		t.Errorf("an answer that is read without end: %v, want deadline_exceeded that names Timeout", err)
	}
	p = loadHand(t, `i32.const 0`, Limits{Timeout: time.Hour})
	ctx, leave := context.WithCancel(t.Context())
	_, err = p.call(ctx, "a", abi.Tool, nil, nil, func(ctx context.Context, out []byte) error {
		leave()
		return wait(ctx, out)
	})
	if host.CodeOf(err) != host.Canceled {
		t.Errorf("an answer whose caller has left: %v, want canceled", err)
	}
}

func TestReadingAnAnswerIsInTheBudget(t *testing.T) {
	const output = `{"content":[1,2,3]}`
	read := func(context.Context, []byte) error { return nil }
	cost := func(body string) *host.Cost {
		t.Helper()
		p := loadHand(t, fmt.Sprintf("data 0 %q\n---\n%s", output, body), Limits{})
		c, err := p.call(t.Context(), "a", abi.Tool, nil, nil, read)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	full := cost(fmt.Sprintf("i32.const 0 i32.const %d call $output_write i32.const 0", len(output)))
	none := cost("i32.const 0 i32.const 0 call $output_write i32.const 0")
	want := answerPrice([]byte(output), jsondoc.CountSigns([]byte(output))) + int64(len(output))/callmeter.BytesPerInstruction
	if got := full.Instructions - none.Instructions; got != want {
		t.Errorf("an answer of %d bytes costs %d instructions more than none, want %d", len(output), got, want)
	}
}

// The call has its turn while its answer is read, and gives it to others.
func TestReadingAnAnswerGivesWay(t *testing.T) {
	rt := startRuntime(t, &Options{Running: 1})
	p, err := rt.Load(t.Context(), "x", handWritten(t, `i32.const 0`), nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	_, err = p.call(t.Context(), "greedy", abi.Tool, nil, nil, func(ctx context.Context, _ []byte) error {
		go func() {
			_, err := p.Call(context.Background(), "modest", "tool", nil, nil)
			done <- err
		}()
		for {
			select {
			case err := <-done:
				return err
			default:
			}
			for began := time.Now(); time.Since(began) < fairsched.MaxCredit; { // a piece that takes long
			}
			if err := callmeter.Yield(ctx); err != nil {
				return err
			}
		}
	})
	if err != nil {
		t.Errorf("a call while an answer is read: %v", err)
	}
}

func TestSchemasAreCompiledOnce(t *testing.T) {
	const manifest = `{"abi":1,"name":"n","tools":[{"name":"t","parameters":{"type":"object"},"result":{"type":"object"}}],` +
		`"providers":[{"name":"c","config":{"type":"object"}}],"permissions":{}}`
	p := loadConstant(t, startRuntime(t, nil), manifest, map[abi.Export]answer{abi.Provide: {`{"tools":["t"]}`, 0}})
	info := p.manifest.Tool("t")
	first, err := toolSchemas(p.id, p.schemas, info)
	if err != nil || first.Parameters == nil || first.Result == nil || p.schemas.Config("provider", "c") == nil {
		t.Fatalf("schemas after loading: %+v, %v", first, err)
	}
	if again, _ := toolSchemas(p.id, p.schemas, info); again != first {
		t.Errorf("asked again, a tool has schemas %p, not the first ones %p", again.Parameters, first.Parameters)
	}
	provider, err := p.Provider("", nil)
	if err != nil {
		t.Fatal(err)
	}
	tool := func() *host.Tool {
		t.Helper()
		state, err := host.NewState(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := provider.Provide(t.Context(), &host.ProvideRequest{Scope: host.Scope{Tenant: "a"}, State: state})
		if err != nil || len(got.Tools) != 1 {
			t.Fatalf("provide: %+v, %v", got, err)
		}
		return got.Tools[0]
	}
	if a, b := tool(), tool(); a != b {
		t.Errorf("a provider makes its tool for every call: %p, then %p", a, b)
	}
}

func TestSchemasThatDoNotCompileAreRefusedAtLoad(t *testing.T) {
	for what, manifest := range map[string]string{
		"parameters of tool":  `"tools":[{"name":"t","parameters":{"type":7}}]`,
		"result of tool":      `"tools":[{"name":"t","result":{"type":7}}]`,
		"config of processor": `"processors":[{"name":"t","config":{"type":7}}]`,
		"config of router":    `"routers":[{"name":"t","config":{"type":7}}]`,
		"config of provider":  `"providers":[{"name":"t","config":{"type":7}}]`,
	} {
		rt := startRuntime(t, nil)
		_, err := rt.Load(t.Context(), "x", constantGuest(t, `{"abi":1,"name":"n",`+manifest+`}`, nil), nil)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(fmt.Sprint(err), what+` "t"`) {
			t.Errorf("load a manifest whose %s is no schema: %v, want invalid_argument that names it", what, err)
		}
	}
}

func TestCompilingSchemasEndsWithTheLoad(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	rt := startRuntime(t, nil)
	p := &Plugin{runtime: rt, manifest: &Manifest{Tools: []ToolInfo{{Name: "t", Parameters: json.RawMessage(`{}`)}}}, limits: Limits{StartTimeout: time.Hour}}
	if err := p.compileSchemas(ctx, nil); host.CodeOf(err) != host.Canceled || p.schemas != nil {
		t.Errorf("compiling for a caller who has left: %v, want canceled", err)
	}
	p.limits.StartTimeout = time.Nanosecond
	if err := p.compileSchemas(t.Context(), nil); host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(fmt.Sprint(err), "StartTimeout") {
		t.Errorf("compiling beyond StartTimeout: %v, want deadline_exceeded that names it", err)
	}
}

// The library that compiles schemas cannot be stopped, so they take the slots that
// modules take, and are on the same bill.
func TestSchemasTakeACompileSlot(t *testing.T) {
	rt := startRuntime(t, nil)
	manifest := Manifest{Tools: []ToolInfo{{Name: "t", Parameters: json.RawMessage(`{"type":"object"}`)}}}
	p := &Plugin{id: "x", runtime: rt, manifest: &manifest, limits: Limits{StartTimeout: time.Hour}}
	var slots []*fairsched.Flow
	for i := range compilesAtOnce {
		s, err := rt.compiler.slots.Enter(t.Context(), fmt.Sprint(i), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, s)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.compileSchemas(ctx, []string{"acme"}) }()
	leave()
	if err := <-ended; host.CodeOf(err) != host.Canceled || p.schemas != nil {
		t.Errorf("while all slots are taken: %v, want canceled, and nothing compiled", err)
	}
	for _, s := range slots {
		rt.compiler.slots.Leave(s, 0, true)
	}
	if err := p.compileSchemas(t.Context(), []string{"acme"}); err != nil || p.schemas == nil {
		t.Fatal(err)
	}
	charges := rt.UsageReport().Items
	if len(charges) != 1 || charges[0].Tenant != "acme" || charges[0].Export != compileLine || charges[0].Compile <= 0 {
		t.Errorf("the bill is %+v, want a line of acme for compiling", charges)
	}
}
