package instrument_test

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/instrument"
)

// slow reports calls of models that take long.
type slow struct{ limit time.Duration }

func (s slow) Begin(ctx context.Context, op instrument.Operation) (context.Context, func(error)) {
	m, ok := op.(*instrument.Model)
	if !ok {
		return ctx, nil
	}
	return ctx, func(err error) {
		if time.Since(m.Began()) >= s.limit {
			fmt.Println(m.Scope.Agent, "asked", m.Answered, "for", m.Usage.OutputTokens, "tokens, error:", err)
		}
	}
}

func Example() {
	h, err := host.New(&host.Options{SingleTenant: true, Instrument: slow{limit: 0}, Model: hosttest.NewModel(hosttest.Say("Hello!"))})
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		panic(err)
	}
	if _, err := h.Run(context.Background(), agent, &host.Request{Text: "hi"}); err != nil {
		panic(err)
	}
	// Output: clerk asked scripted for 1 tokens, error: <nil>
}
