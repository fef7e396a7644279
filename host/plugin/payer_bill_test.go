package plugin_test

// Scenario: a run's sandboxed calls are in the bill, in the budget and in the report with
// the same instructions, and stay spent when the host is started again.

import (
	"context"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/usage"
)

func TestTheBillAndTheBudgetAgreeToTheInstruction(t *testing.T) {
	driver := kv.NewMemory()
	defer driver.Close()
	limits := []usage.Limit{{Resource: usage.Instructions, Window: usage.Every(31 * 24 * time.Hour), Amount: 1_000_000_000_000}}
	open := func() *usage.Ledger {
		l, err := usage.New(driver, &usage.Options{Default: usage.Plan{Limits: limits}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ledger := open()
	rt := newRuntime(t, &plugin.Options{Ledger: ledger})
	echo := load(t, rt, "echo", buildGuest(t, "host/plugin/testdata/guests/echo"), nil)
	tools, err := echo.Tools(nil)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := host.NewAgent("clerk", &host.AgentOptions{
		Model: hosttest.NewModel(hosttest.Call("echo", `{}`), hosttest.Say("done")), Tools: tools,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.New(&host.Options{Ledger: ledger})
	if err != nil {
		t.Fatal(err)
	}
	result, err := h.Run(t.Context(), agent, &host.Request{Tenant: "acme", Text: "echo", Key: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := echo.Call(t.Context(), "acme", "tool", []byte(`{"tool":"echo"}`), nil); err != nil { // outside a run
		t.Fatal(err)
	}
	var total, ofRun, reported int64
	now := time.Now()
	for _, day := range []time.Time{now.AddDate(0, 0, -1), now} { // midnight may have been meanwhile
		bill, err := ledger.BillOf(t.Context(), "acme", usage.DayOf(day))
		if err != nil {
			t.Fatal(err)
		}
		total += bill.Total.Instructions
		for _, item := range bill.Items {
			if item.Key == "k1" {
				ofRun += item.Instructions
			}
		}
	}
	for _, item := range rt.UsageReport().Items {
		if item.Tenant == "acme" {
			reported += item.Instructions
		}
	}
	used := usedBy(t, ledger, "acme")
	if total != used || used != reported || ofRun < result.Cost.Instructions || ofRun >= used || ofRun == 0 {
		t.Errorf("the bill has %d instructions, %d of the run, which cost %d; the budget has %d and the report %d",
			total, ofRun, result.Cost.Instructions, used, reported)
	}
	if err := ledger.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	again := open()
	defer again.Close(context.Background())
	if got := usedBy(t, again, "acme"); got != used {
		t.Errorf("after a restart %d instructions are spent, want %d", got, used)
	}
	if got := usedBy(t, again, "globex"); got != 0 {
		t.Errorf("another tenant has spent %d", got)
	}
}

func usedBy(t *testing.T, l *usage.Ledger, tenant string) int64 {
	t.Helper()
	list, err := l.Used(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return usage.SpentOf(list, usage.Instructions)
}
