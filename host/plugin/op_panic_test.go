package plugin

// Scenario: stores panic and fail below an operation, and the guest learns only the
// code.

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// panickingStore is a driver that panics with words of the operator's.
type panickingStore struct {
	Store
	words any
}

func (s panickingStore) Get(context.Context, Owner, string) (Item, error) {
	if s.words == nil {
		var missing *panickingStore
		return missing.Store.Get(context.Background(), Owner{}, "") // dereferences nil
	}
	panic(s.words)
}

func TestPanicsOfStoresStayInTheLog(t *testing.T) {
	for name, words := range map[string]any{"of Go's runtime": nil, "of a driver": "connect to db.internal:5432"} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			rt := startRuntime(t, &Options{Store: panickingStore{words: words}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{KV: Write}})
			if err != nil {
				t.Fatal(err)
			}
			out, err := runOp(t.Context(), p, "acme", `kv.get {"key":"k"}`, nil)
			if host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "the operation kv.get failed") {
				t.Errorf("the call: %q, %v", out, err)
			}
			for _, secret := range []string{"db.internal", "nil pointer", "runtime error", "goroutine"} {
				if strings.Contains(out+err.Error(), secret) {
					t.Errorf("the owner of the plugin reads %q: %v", secret, err)
				}
			}
			if want := map[bool]string{true: "nil pointer", false: "db.internal"}[words == nil]; !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		})
	}
}

// failingStore is a driver whose errors have words of the operator's.
type failingStore struct{ Store }

func (failingStore) Get(context.Context, Owner, string) (Item, error) {
	return Item{}, &host.Error{Code: host.Unavailable, Retryable: true, Message: "kv: connect to db.internal:5432: password=hush",
		Err: errors.New("connect to db.internal:5432: password=hush")}
}

// A guest gets the code of a driver's error and not its text (decision 39).
func TestErrorsOfStoresStayInTheLog(t *testing.T) {
	var log strings.Builder
	rt := startRuntime(t, &Options{Store: failingStore{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p, err := rt.Load(t.Context(), "ops", opsGuest(t, manifestAt(80)), &LoadOptions{Granted: Permissions{KV: Write}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := runOp(t.Context(), p, "acme", `kv.get {"key":"k"}`, nil)
	if host.CodeOf(err) != host.Unavailable || strings.Contains(out+err.Error(), "db.internal") {
		t.Errorf("the guest gets %q, %v; want the code unavailable and not the text", out, err)
	}
	if !strings.Contains(log.String(), "password=hush") {
		t.Errorf("the log lacks the driver's text: %s", log.String())
	}
}
