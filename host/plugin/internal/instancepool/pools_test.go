package instancepool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/instancepool"
)

// tenant is a tenant of the tests.
type tenant struct {
	id   string
	kit  *kit
	uses atomic.Int32
}

func (t *tenant) ID() string { return t.id }

func (t *tenant) CallLimits() (instancepool.Limits, error) {
	if t.id == t.kit.refused {
		return t.kit.limits, errors.New("there is no such plugin")
	}
	return t.kit.limits, nil
}

func (t *tenant) Release() { t.uses.Add(-1) }

// instance is an instance of the tests.
type instance struct {
	link   instancepool.Link[*instance]
	number int
	closed atomic.Int32
}

func (i *instance) Link() *instancepool.Link[*instance] { return &i.link }
func (i *instance) Suits(t *tenant) bool                { return t.id != "particular" }
func (i *instance) Close()                              { i.closed.Add(1) }

type pools = instancepool.Pools[*tenant, *instance]

// kit has pools with the tenants and instances that they have used.
type kit struct {
	*pools
	limits  instancepool.Limits
	refused string // the tenant without the plugin
	sweeper *instancepool.Sweeper
	sweeps  atomic.Int32

	mu      sync.Mutex
	tenants map[string]*tenant
	made    []*instance
}

func newKit(t *testing.T, limits instancepool.Limits, maxIdle int) *kit {
	t.Helper()
	k := &kit{limits: limits, tenants: map[string]*tenant{}}
	k.sweeper = instancepool.StartSweeper(func() { k.sweeps.Add(1); k.Sweep() })
	k.pools = instancepool.New[*tenant, *instance](instancepool.Options[*tenant]{
		Plugin: "p", Sweeper: k.sweeper, Acquire: k.acquire, MaxIdle: maxIdle, IdleTime: 10 * time.Second,
		Blameless: func(err error) error { return fmt.Errorf("blameless: %w", err) },
	})
	t.Cleanup(k.sweeper.Stop)
	return k
}

func (k *kit) acquire(id string) *tenant {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tenants[id] == nil {
		k.tenants[id] = &tenant{id: id, kit: k}
	}
	k.tenants[id].uses.Add(1)
	return k.tenants[id]
}

func (k *kit) make() *instance {
	k.mu.Lock()
	defer k.mu.Unlock()
	inst := &instance{number: len(k.made)}
	k.made = append(k.made, inst)
	return inst
}

// call is a call of a tenant that ends at once, and returns its instance. Of the tenant's
// own two may be idle.
func (k *kit) call(t *testing.T, tenant string, restored bool) *instance {
	t.Helper()
	pl, err := k.Enter(t.Context(), tenant)
	if err != nil {
		t.Fatalf("Enter(%q): %v", tenant, err)
	}
	inst, _ := k.Take(pl, restored)
	if inst == nil {
		inst = k.make()
	}
	inst.link.Used, inst.link.Restored = time.Now(), restored
	k.GiveBack(t.Context(), pl, inst, true, 2)
	return inst
}

// wantCounts compares the numbers of calls, live and idle instances, and tenants.
func (k *kit) wantCounts(t *testing.T, want instancepool.Counts) {
	t.Helper()
	if got := k.Count(); got != want {
		t.Errorf("Count() = %+v, want %+v", got, want)
	}
}

// wantUnused fails if a tenant is in use.
func (k *kit) wantUnused(t *testing.T) {
	t.Helper()
	for id, tn := range k.tenants {
		if n := tn.uses.Load(); n != 0 {
			t.Errorf("tenant %s is in use %d times, want 0", id, n)
		}
	}
}

var oneAtOnce = instancepool.Limits{Instances: 1, Waiting: 2, Timeout: time.Minute}

func TestCallsBeyondTheLimitWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, oneAtOnce, 10)
		first, err := k.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 2 {
			go func() {
				pl, err := k.Enter(t.Context(), "a")
				if err != nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
				order = append(order, i)
				k.Exit(t.Context(), pl)
			}()
			synctest.Wait()
		}
		if _, err := k.Enter(t.Context(), "a"); fault.CodeOf(err) != fault.ResourceExhausted || !isBlameless(err) {
			t.Errorf("a call beyond the limit Waiting: %v, want resource_exhausted, blameless", err)
		}
		other, err := k.Enter(t.Context(), "b")
		if err != nil {
			t.Errorf("another tenant's call: %v", err)
		}
		k.Exit(t.Context(), other)
		if len(order) > 0 {
			t.Errorf("calls %v ran beside the first", order)
		}
		k.Exit(t.Context(), first)
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1}) {
			t.Errorf("calls ran in the order %v, want 0, 1", order)
		}
		k.wantCounts(t, instancepool.Counts{})
		k.wantUnused(t)
	})
}

func isBlameless(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "blameless: ") }

func TestAWaitingCallEndsWithItsContextOrItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, oneAtOnce, 10)
		first, err := k.Enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := k.Enter(ctx, "a"); fault.CodeOf(err) != fault.Canceled {
			t.Errorf("a call whose caller has left: %v, want canceled", err)
		}
		began := time.Now()
		if _, err := k.Enter(t.Context(), "a"); fault.CodeOf(err) != fault.ResourceExhausted || !isBlameless(err) || time.Since(began) != time.Minute {
			t.Errorf("a call that waited %s: %v, want resource_exhausted after a minute", time.Since(began), err)
		}
		k.wantCounts(t, instancepool.Counts{Calls: 1, Tenants: 1})
		k.Exit(t.Context(), first)
		k.wantUnused(t)
	})
}

func TestASuspendedCallLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, oneAtOnce, 10)
		enter := func(ctx context.Context) *instancepool.Pool[*tenant, *instance] {
			t.Helper()
			pl, err := k.Enter(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			return pl
		}
		outer := enter(t.Context())
		within, resume := k.Suspend(t.Context(), "a")
		inner, beside := enter(within), enter(t.Context())
		_, keeps := k.Suspend(t.Context(), "a") // the limit of suspended calls is reached
		k.Exit(within, inner)
		ran := false
		go func() {
			k.Exit(t.Context(), enter(t.Context()))
			ran = true
		}()
		synctest.Wait()
		if ran {
			t.Error("a call ran in the place of one that may not be suspended")
		}
		keeps()
		resume()
		k.Exit(t.Context(), outer)
		if synctest.Wait(); ran {
			t.Error("a call ran in the place of a resumed one, beside the limit")
		}
		k.Exit(t.Context(), beside)
		if synctest.Wait(); !ran {
			t.Error("the waiting call did not run when a place was free")
		}
		k.wantCounts(t, instancepool.Counts{})
	})
}

func TestATenantWithoutThePluginIsRefused(t *testing.T) {
	k := newKit(t, oneAtOnce, 10)
	k.refused = "a"
	if _, err := k.Enter(t.Context(), "a"); err == nil || err.Error() != "there is no such plugin" {
		t.Errorf("Enter: %v, want the tenant's error", err)
	}
	k.wantCounts(t, instancepool.Counts{})
	k.wantUnused(t)
}

func TestInstancesServeTheirTenantOrAllWhenRestored(t *testing.T) {
	k := newKit(t, oneAtOnce, 10)
	own := k.call(t, "a", false)
	if again := k.call(t, "a", false); again != own {
		t.Errorf("the tenant's next call has instance %d, want its own", again.number)
	}
	if other := k.call(t, "b", false); other == own {
		t.Error("another tenant has an instance with state")
	}
	restored := k.call(t, "a", true)
	if restored == own {
		t.Error("a call that wants a restored instance has one with state")
	}
	if got := k.call(t, "c", true); got != restored {
		t.Errorf("another tenant's call has instance %d, want the restored one", got.number)
	}
	if got := k.call(t, "particular", true); got == restored {
		t.Error("a tenant has a restored instance that does not suit it")
	}
}

func TestTheLongestUnusedInstanceGivesWay(t *testing.T) {
	k := newKit(t, oneAtOnce, 2)
	a, b := k.call(t, "a", false), k.call(t, "b", false)
	pl, err := k.Enter(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	inst, foreign := k.Take(pl, false)
	if inst != a || !foreign {
		t.Errorf("Take with as many idle instances as allowed: instance %v, foreign %t; want that of a", inst, foreign)
	}
	k.wantCounts(t, instancepool.Counts{Calls: 1, Live: 2, Idle: 1, Tenants: 2})
	k.GiveBack(t.Context(), pl, inst, false, 2)
	if a.closed.Load() != 1 || b.closed.Load() != 0 {
		t.Errorf("a's instance was closed %d times and b's %d, want once and never", a.closed.Load(), b.closed.Load())
	}
	k.wantCounts(t, instancepool.Counts{Live: 1, Idle: 1, Tenants: 1})
}

func TestIdleInstancesAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, oneAtOnce, 10)
		k.call(t, "a", false)
		time.Sleep(7 * time.Second)
		k.call(t, "b", false)
		time.Sleep(4 * time.Second)
		k.wantCounts(t, instancepool.Counts{Live: 1, Idle: 1, Tenants: 1})
		time.Sleep(7 * time.Second)
		k.wantCounts(t, instancepool.Counts{})
		k.wantUnused(t)
		before := k.sweeps.Load()
		if time.Sleep(time.Hour); k.sweeps.Load() != before {
			t.Errorf("%d sweeps came while nothing was idle", k.sweeps.Load()-before)
		}
	})
}

func TestCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, oneAtOnce, 10)
		idle := k.call(t, "a", false)
		pl, err := k.Enter(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		inst := k.make()
		k.Take(pl, false)
		closed := false
		go func() { closed = k.Close() }()
		synctest.Wait()
		if closed || k.Retire(time.Time{}) != 0 || k.Close() {
			t.Error("pools are closed while a call is in progress")
		}
		if _, err := k.Enter(t.Context(), "a"); fault.CodeOf(err) != fault.FailedPrecondition {
			t.Errorf("Enter of closed pools: %v, want failed_precondition", err)
		}
		k.GiveBack(t.Context(), pl, inst, true, 2)
		synctest.Wait()
		if !closed || idle.closed.Load() != 1 || inst.closed.Load() != 1 {
			t.Errorf("Close is done: %t; the instances were closed %d and %d times, want once each", closed, idle.closed.Load(), inst.closed.Load())
		}
		k.wantCounts(t, instancepool.Counts{})
		k.wantUnused(t)
	})
}

// Many calls at once, some of which fail, some in others, while instances are retired: no
// tenant has more calls than its limit, and everything that was made is closed once.
func TestPoolsHammer(t *testing.T) {
	const limit = 3
	k := newKit(t, instancepool.Limits{Instances: limit, Waiting: 100, Timeout: time.Minute}, 4)
	var running [5]atomic.Int32
	var all sync.WaitGroup
	for worker := range 16 {
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		all.Go(func() {
			for range 300 {
				n := random.IntN(len(running))
				id := fmt.Sprint(n)
				pl, err := k.Enter(t.Context(), id)
				if err != nil {
					t.Errorf("Enter: %v", err)
					return
				}
				if got := running[n].Add(1); got > limit {
					t.Errorf("%d calls of a tenant run at once, want at most %d", got, limit)
				}
				restored := random.IntN(2) == 0
				inst, foreign := k.Take(pl, restored)
				if foreign && random.IntN(2) == 0 {
					inst.Close()
					inst = nil
				}
				if inst == nil {
					inst = k.make()
				}
				running[n].Add(-1) // a resumed call runs beside the limit
				if random.IntN(4) == 0 {
					within, resume := k.Suspend(t.Context(), id)
					if nested, err := k.Enter(within, id); err != nil {
						t.Errorf("a nested call: %v", err)
					} else {
						k.Exit(within, nested)
					}
					resume()
				}
				inst.link.Used, inst.link.Restored = time.Now(), restored
				k.GiveBack(t.Context(), pl, inst, random.IntN(8) > 0, 2)
				if random.IntN(50) == 0 {
					k.Retire(time.Time{})
				}
			}
		})
	}
	all.Wait()
	if c := k.Count(); c.Calls != 0 || c.Live != c.Idle || c.Idle > 4 {
		t.Errorf("after all calls: %+v, want no calls, and at most 4 instances, all of them idle", c)
	}
	k.Close()
	for _, inst := range k.made {
		if n := inst.closed.Load(); n != 1 {
			t.Errorf("instance %d was closed %d times, want once", inst.number, n)
		}
	}
	k.wantUnused(t)
}
