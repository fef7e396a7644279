package usagereport

import (
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
)

func TestRecordingAllocatesNothing(t *testing.T) {
	var m Record
	cost := &host.Cost{Instructions: 1000, PeakMemory: 1, InputBytes: 1, OutputBytes: 1}
	if n := testing.AllocsPerRun(100, func() { m.Add(cost, time.Microsecond, 0, OK) }); n != 0 {
		t.Errorf("Add allocates %v times", n)
	}
}

// BenchmarkRecord times the counting of a call, beside its least cost: a lock, and two readings of the clock.
func BenchmarkRecord(b *testing.B) {
	cost := &host.Cost{Instructions: 1000, PeakMemory: 1 << 20, InputBytes: 1000, OutputBytes: 1000}
	b.Run("add", func(b *testing.B) {
		var t Record
		b.ReportAllocs()
		for b.Loop() {
			t.Add(cost, 2*time.Microsecond, 0, OK)
		}
	})
	b.Run("add/parallel", func(b *testing.B) {
		var t Record
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				t.Add(cost, 2*time.Microsecond, 0, OK)
			}
		})
	})
	b.Run("floor/lock", func(b *testing.B) {
		var mu sync.Mutex
		n := 0
		for b.Loop() {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	b.Run("floor/clock", func(b *testing.B) {
		for b.Loop() {
			_ = time.Since(time.Now())
		}
	})
}

func TestBooksAreBounded(t *testing.T) {
	if _, err := New(-1); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("a negative bound: %v, want invalid_argument", err)
	}
	b, err := New(2)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, tenant := range []string{"a", "b", "c", "d", "a"} {
		b.Record(tenant, "p", "tool", false).Add(&host.Cost{Instructions: 1}, time.Millisecond, 0, OK)
	}
	b.Record("e", "own", "tool", true).Refuse(time.Second)
	report := b.Report(began)
	want := []Item{
		{Tenant: OtherTenants, Plugin: otherPlugins, Export: "tool", Owned: true, Wait: time.Second},
		{Tenant: OtherTenants, Plugin: "p", Export: "tool", Instructions: 2},
		{Tenant: "a", Plugin: "p", Export: "tool", Instructions: 2},
		{Tenant: "b", Plugin: "p", Export: "tool", Instructions: 1},
	}
	if len(report.Items) != len(want) {
		t.Fatalf("Report = %+v, want %d items", report.Items, len(want))
	}
	for i, w := range want {
		if g := report.Items[i]; g.id() != w.id() || g.Instructions != w.Instructions || g.Wait != w.Wait {
			t.Errorf("item %d is %+v, want %+v", i, g, w)
		}
	}
	if sum := report.Sum(false, true, false).Items; len(sum) != 2 || sum[0].Plugin != TenantPlugins || sum[1].Instructions != 5 {
		t.Errorf("Sum by plugin = %+v, want those of tenants and p with 5", sum)
	}
	b.Record("b", "p", "tool", false).Compiled(time.Minute)
	if since := b.Report(began).Since(report).Items; len(since) != 1 || since[0].Tenant != "b" || since[0].Compile != time.Minute {
		t.Errorf("Since = %+v, want the compiling of b alone", since)
	}
}
