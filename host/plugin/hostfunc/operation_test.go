package hostfunc_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func answers(text string) func(context.Context, llm.Scope, json.RawMessage) (json.RawMessage, error) {
	return func(context.Context, llm.Scope, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(text), nil
	}
}

func TestOperationsThatCannotBeAreRefused(t *testing.T) {
	do := answers(`{}`)
	for says, list := range map[string][]hostfunc.Operation{
		`is named "charge"`:           {{Name: "charge", Do: do}},
		`is named "Billing.charge"`:   {{Name: "Billing.charge", Do: do}},
		`is named "billing..charge"`:  {{Name: "billing..charge", Do: do}},
		`is named "billing.charge "`:  {{Name: "billing.charge ", Do: do}},
		"namespace kv":                {{Name: "kv.swap", Do: do}},
		"namespace tool":              {{Name: "tool.call", Do: do}},
		"namespace agenthost":         {{Name: "agenthost.call", Do: do}},
		"has no function Do":          {{Name: "billing.charge"}},
		"costs -1 instructions":       {{Name: "billing.charge", Do: do, Price: -1}},
		"costs 1000000001":            {{Name: "billing.charge", Do: do, Price: hostfunc.MaxPrice + 1}},
		"the timeout -1s":             {{Name: "billing.charge", Do: do, Timeout: -time.Second}},
		"-1 and 0 bytes":              {{Name: "billing.charge", Do: do, RequestBytes: -1}},
		"are one function of Extism":  {{Name: "billing.charge", Do: do}, {Name: "billing.charge", Do: do}},
		`"a.b_c" and "a.b.c" are one`: {{Name: "a.b_c", Do: do}, {Name: "a.b.c", Do: do}},
		"257 operations of its own":   make([]hostfunc.Operation, hostfunc.MaxOperations+1),
		"of at most 64 bytes":         {{Name: "billing." + strings.Repeat("x", 60), Do: do}},
	} {
		_, err := hostfunc.NewSet(list, nil)
		if text := err; fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(text.Error()+fault.AsError(err).Hint, says) {
			t.Errorf("%+v: %v, want invalid_argument that says %q", list[0], err, says)
		}
	}
}

func TestAnOperationEndsInOneOutcome(t *testing.T) {
	const secret = "password=hush"
	for _, c := range []struct {
		claim   string
		op      hostfunc.Operation
		request string
		want    string
		code    fault.Code
		says    string
	}{
		{"a response is the guest's", hostfunc.Operation{Do: answers(`{"ok":true}`)}, `{}`, `{"ok":true}`, "", ""},
		{"no response is an empty object", hostfunc.Operation{Do: answers(``)}, `null`, `{}`, "", ""},
		{"a request is JSON", hostfunc.Operation{Do: answers(`{}`)}, `{`, "", fault.InvalidArgument, "not valid JSON"},
		{"a request is UTF-8", hostfunc.Operation{Do: answers(`{}`)}, "\"\xff\"", "", fault.InvalidArgument, "not valid UTF-8"},
		{"a request is bounded", hostfunc.Operation{Do: answers(`{}`), RequestBytes: 4}, `"long"`, "", fault.ResourceExhausted, "more than the 4"},
		{"a response is JSON", hostfunc.Operation{Do: answers(`yes`)}, `{}`, "", fault.Internal, "internal error"},
		{"a response is bounded", hostfunc.Operation{Do: answers(`"longer"`), ResponseBytes: 4}, `{}`, "", fault.ResourceExhausted, "more than the 4"},
		{"an error of the program's keeps its code and text", hostfunc.Operation{Do: func(context.Context, llm.Scope, json.RawMessage) (json.RawMessage, error) {
			return nil, fault.Errorf(fault.FailedPrecondition, "the card has expired")
		}}, `{}`, "", fault.FailedPrecondition, "the card has expired"},
		{"a driver's error shows no text", hostfunc.Operation{Do: func(context.Context, llm.Scope, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New(secret)
		}}, `{}`, "", fault.Internal, "internal error"},
		{"a panic shows no text", hostfunc.Operation{Do: func(context.Context, llm.Scope, json.RawMessage) (json.RawMessage, error) {
			panic(secret)
		}}, `{}`, "", fault.Internal, "internal error"},
		{"a tenant without it has no such operation", hostfunc.Operation{Do: answers(`{}`), Available: func(tenant string) bool { return tenant != "acme" }}, `{}`, "", fault.Unimplemented, `no operation "billing.charge"`},
		{"a panic about tenants is no operation", hostfunc.Operation{Do: answers(`{}`), Available: func(string) bool { panic(secret) }}, `{}`, "", fault.Unimplemented, `no operation`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			c.op.Name = "billing.charge"
			var log strings.Builder
			set, err := hostfunc.NewSet([]hostfunc.Operation{c.op}, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := set.Run(t.Context(), "billing.charge", llm.Scope{Tenant: "acme"}, json.RawMessage(c.request))
			var shown string
			if err != nil {
				shown = fault.ForClient(err, "").Error()
			}
			if string(got) != c.want || err != nil && fault.CodeOf(err) != c.code || !strings.Contains(shown, c.says) || (err == nil) != (c.code == "") {
				t.Errorf("%q, %v (shown %q), want %q, %s that says %q", got, err, shown, c.want, c.code, c.says)
			}
			if strings.Contains(shown, "hush") {
				t.Errorf("the guest reads %q", shown)
			}
			if strings.Contains(c.claim, "panic") && !strings.Contains(log.String(), "hush") {
				t.Errorf("the log lacks the panic: %s", log.String())
			}
		})
	}
}

func TestAnOperationEndsAtItsTimeout(t *testing.T) {
	for name, do := range map[string]func(context.Context) error{
		"one that hears of it": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"one that does not":    func(context.Context) error { time.Sleep(time.Hour); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			set, err := hostfunc.NewSet([]hostfunc.Operation{{Name: "slow.one", Timeout: time.Second,
				Do: func(ctx context.Context, _ llm.Scope, _ json.RawMessage) (json.RawMessage, error) {
					return nil, do(ctx)
				}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = set.Run(t.Context(), "slow.one", llm.Scope{}, json.RawMessage(`{}`))
			if fault.CodeOf(err) != fault.DeadlineExceeded || !strings.Contains(err.Error(), "timeout of 1s") || time.Since(began) > 4*time.Second {
				t.Errorf("%s: %v after %s, want deadline_exceeded within its timeout and some grace", name, err, time.Since(began))
			}
			time.Sleep(2 * time.Hour) // the abandoned one returns
		})
	}
}

func TestTypedOperationsRefuseOtherRequests(t *testing.T) {
	type in struct {
		Amount int64 `json:"amount"`
	}
	type out struct {
		Left int64 `json:"left"`
	}
	set, err := hostfunc.NewSet([]hostfunc.Operation{hostfunc.New("billing.charge", func(_ context.Context, _ llm.Scope, r in) (out, error) {
		return out{Left: 100 - r.Amount}, nil
	})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := set.Run(t.Context(), "billing.charge", llm.Scope{}, json.RawMessage(`{"amount":30}`)); err != nil || string(got) != `{"left":70}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := set.Run(t.Context(), "billing.charge", llm.Scope{}, json.RawMessage(`{"amount":"all"}`)); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("an amount that is no number: %v", err)
	}
}

func TestNoSetHasNoOperations(t *testing.T) {
	var none *hostfunc.Set
	if _, known := none.Price("billing.charge"); known || none.Has("billing.charge", "") || len(none.Names())+len(none.Functions()) > 0 {
		t.Error("a nil set has operations")
	}
}
