package usage_test

import (
	"context"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/usage"
)

func Example() {
	ctx := context.Background()
	ledger, err := usage.New(kv.NewMemory(), &usage.Options{
		Prices: &usage.PriceTable{Version: "2026-11", Currency: "USD", Models: map[string]usage.Price{
			"scripted": {Input: usage.Units(2.50), Output: usage.Units(10)},
		}},
		Tenants: map[string]*usage.Plan{"acme": {Limits: []usage.Limit{
			{Resource: usage.Money, Amount: usage.Units(0.0001), Window: usage.CalendarDay},
		}}},
	})
	if err != nil {
		panic(err)
	}
	defer ledger.Close(ctx)
	model := hosttest.ModelFunc(func(context.Context, *llm.Request) hosttest.Reply {
		return hosttest.Reply{Text: "Hello!", Usage: host.Usage{InputTokens: 8, OutputTokens: 8}}
	})
	h, err := host.New(&host.Options{Model: model, Ledger: ledger})
	if err != nil {
		panic(err)
	}
	agent, err := host.NewAgent("clerk", nil)
	if err != nil {
		panic(err)
	}
	for range 2 {
		result, err := h.Run(ctx, agent, &host.Request{Tenant: "acme", Key: "website", Text: "hi"})
		if err != nil {
			fmt.Println("refused:", host.CodeOf(err))
			continue
		}
		fmt.Println(result.Text())
	}
	bill, err := ledger.BillOf(ctx, "acme", usage.DayOf(time.Now()))
	if err != nil {
		panic(err)
	}
	for _, i := range bill.Items {
		if i.Model != "" {
			fmt.Printf("%s %s %s: %d calls, %.4f USD\n", i.Key, i.Agent, i.Model, i.Calls, float64(i.Money)/1e9)
		}
	}
	// Output:
	// Hello!
	// refused: resource_exhausted
	// website clerk scripted: 1 calls, 0.0001 USD
}
