package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

// Where things are in a tenant's partition:
//
//	usage/windows                   the use of the present windows, and the leases
//	usage/open/<lease>/<n>          a record that the commit of a turn has stored, not yet settled
//	usage/record/<seq>              a settled record
//	usage/day/<yyyymmdd>/<key>/<agent>/<model>   a sum of settled records; "" and "" are the
//	usage/month/<yyyymm>/<key>/<agent>/<model>   amounts of runs beside the calls of models
//
// Each change of usage/windows is on condition of its revision, and is in one transaction
// with the records that it settles and their sums: a record is settled once.
var (
	allKeys    = kv.NewKey("usage")
	windowsKey = kv.NewKey("usage", "windows")
	openKeys   = kv.NewKey("usage", "open")
	recordKeys = kv.NewKey("usage", "record")
	dayKeys    = kv.NewKey("usage", "day")
	monthKeys  = kv.NewKey("usage", "month")
)

func openKey(lease string, n uint64) kv.Key { return openKeys.With(lease).WithUint(n) }

const (
	// LeaseTerm is how long a lease counts as spent after its host last renewed it.
	LeaseTerm = time.Minute

	// MaxClockSkew is by how much the clocks of hosts on one store may differ.
	MaxClockSkew = 30 * time.Second

	// maxLeases bounds the hosts that use one tenant's limits at once.
	maxLeases = 1024

	// maxAttempts is how often a change of the windows is made again after another host
	// was faster.
	maxAttempts = 64

	// maxSettledWrites bounds the writes of one transaction; a record adds at most
	// maxRecordWrites to it.
	maxSettledWrites = 900
	maxRecordWrites  = 2 + 2*(maxUses+1)
	// maxRecovered bounds the records of one dead host that one transaction settles.
	maxRecovered = 200
)

// windows is the value of usage/windows.
type windows struct {
	Version int                `json:"v"`
	Records uint64             `json:"records"` // the Seq of the last record
	Windows map[string]*window `json:"windows,omitempty"`
	Leases  map[string]*lease  `json:"leases,omitempty"`
}

// window is the settled use of a limit in its present window.
type window struct {
	Resource Resource  `json:"resource"`
	Begins   time.Time `json:"begins"`
	Ends     time.Time `json:"ends"`
	Spent    int64     `json:"spent"`
}

// lease is the part of the limits that a host may use.
type lease struct {
	Serial  uint64           `json:"serial"`
	Expires time.Time        `json:"expires"`
	Amounts map[string]int64 `json:"amounts,omitempty"` // by limit, settled use not included
}

const windowsVersion = 1

// readWindows reads the windows of a partition, without those that are over.
func readWindows(ctx context.Context, d kv.Driver, partition string, now time.Time) (*windows, uint64, error) {
	w := &windows{Version: windowsVersion, Windows: map[string]*window{}, Leases: map[string]*lease{}}
	e, err := d.Get(ctx, partition, windowsKey)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return w, 0, nil
	case err != nil:
		return nil, 0, err
	}
	if err := decode(e.Value, w); err != nil {
		return nil, 0, err
	}
	if w.Version > windowsVersion {
		return nil, 0, errFormat(w.Version)
	}
	maps.DeleteFunc(w.Windows, func(_ string, w *window) bool { return !now.Before(w.Ends) })
	return w, e.Revision, nil
}

func decode(value []byte, v any) error {
	if len(value) == 0 || value[0] != formatJSON {
		return fault.Errorf(fault.FailedPrecondition, "usage is stored in a format that this version does not know").
			WithHint("open the store with the version that wrote it, or a newer one")
	}
	if err := json.Unmarshal(value[1:], v); err != nil {
		return fault.Errorf(fault.DataLoss, "stored usage is damaged: %v", err).WithHint("restore it from a backup")
	}
	return nil
}

func errFormat(version int) error {
	return fault.Errorf(fault.FailedPrecondition, "usage is stored in version %d, and this host knows version %d", version, windowsVersion).
		WithHint("open the store with the version that wrote it, or a newer one")
}

func errBusy(tenant string) error {
	e := fault.Errorf(fault.Unavailable, "usage of tenant %q: other hosts changed it first, %d times", tenant, maxAttempts)
	return e.WithHint("try again")
}

// leasedByOthers returns how much of a limit the leases of other accounts have.
func (w *windows) leasedByOthers(own, id string) (n int64) {
	for name, l := range w.Leases {
		if name != own {
			n = addUp(n, l.Amounts[id])
		}
	}
	return n
}

// expired returns the names of the leases whose hosts have not renewed them.
func (w *windows) expired(own string, now time.Time) []string {
	var names []string
	for name, l := range w.Leases {
		if name != own && now.After(l.Expires.Add(MaxClockSkew)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// begun returns the window of a limit, which begins now if none holds.
func (w *windows) begun(l Limit, id string, now time.Time) *window {
	if b := w.Windows[id]; b != nil {
		return b
	}
	b := &window{Resource: l.Resource}
	b.Begins, b.Ends = l.Window.at(now)
	w.Windows[id] = b
	return b
}

// settle puts records at the end of the tenant's records and adds them to the sums. The
// use of the windows is added by the caller.
func (w *windows) settle(ctx context.Context, d kv.Driver, tx *kv.Tx, sums *summing, r *Record) error {
	w.Records++
	r.Seq = w.Records
	raw, err := encode(r)
	if err != nil {
		return err
	}
	tx.Writes = append(tx.Writes, kv.Put(recordKeys.WithUint(r.Seq), raw))
	return sums.add(ctx, d, tx.Partition, r)
}

// recover settles the records that hosts had stored whose leases have expired, and takes
// the leases away once all their records are settled.
func (w *windows) recover(ctx context.Context, d kv.Driver, tx *kv.Tx, sums *summing, own string, now time.Time) error {
	for _, name := range w.expired(own, now) {
		page, err := d.Scan(ctx, tx.Partition, kv.Range{Prefix: openKeys.With(name), Limit: maxRecovered})
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if len(tx.Writes)+len(sums.keys)+maxRecordWrites > maxSettledWrites/2 {
				return nil // the next change settles the rest
			}
			var r Record
			if err := decode(e.Value, &r); err != nil {
				return err
			}
			for _, b := range w.Windows {
				if !r.Ended.Before(b.Begins) && r.Ended.Before(b.Ends) {
					b.Spent = addUp(b.Spent, max(r.amount(b.Resource), 0))
				}
			}
			tx.Writes = append(tx.Writes, kv.Delete(e.Key))
			if err := w.settle(ctx, d, tx, sums, &r); err != nil {
				return err
			}
		}
		if !page.More {
			delete(w.Leases, name)
		}
	}
	return nil
}

// change is one write of the windows by an account.
type change struct {
	serial   uint64
	until    time.Time
	released bool
	settled  []*entry
	ends     map[*counter]time.Time
	epochs   map[*counter]uint64
	leased   map[*counter]int64
	used     map[*counter]int64 // settled
	returned map[*counter]int64 // of leases, by this host before the store says so
}

// sync makes one change of the stored windows: it settles records, and gives the account a
// lease that covers its use and the needs, as far as the limits have them. With flush, an
// account that uses nothing returns its lease. a.syncing is held.
func (a *Account) sync(ctx context.Context, needs []need, flush bool) error {
	for range maxAttempts {
		done, err := a.trySync(ctx, needs, flush)
		if done || err != nil {
			return storeError(err, a.tenant)
		}
	}
	return errBusy(a.tenant)
}

func (a *Account) trySync(ctx context.Context, needs []need, flush bool) (done bool, err error) {
	d := a.ledger.driver
	now := a.ledger.now()
	w, revision, err := readWindows(ctx, d, a.partition, now)
	if err != nil {
		return false, err
	}
	a.resolve(w)
	if err := a.dropRecovered(ctx, w); err != nil {
		return false, err
	}
	tx := kv.Tx{Partition: a.partition, Conds: []kv.Cond{kv.AtRevision(windowsKey, revision)}}
	sums := &summing{}
	if err := w.recover(ctx, d, &tx, sums, a.lease, now); err != nil {
		return false, err
	}
	ch, records := a.plans(w, needs, flush, now)
	if ch == nil {
		return false, fault.Errorf(fault.Unavailable, "more than %d hosts use tenant %q at once", maxLeases, a.tenant)
	}
	for i, e := range ch.settled {
		if e.offered {
			tx.Writes = append(tx.Writes, kv.Delete(openKey(a.lease, e.n)))
		}
		if err := w.settle(ctx, d, &tx, sums, &records[i]); err != nil {
			a.notMade(ch)
			return false, err
		}
	}
	raw, err := encode(w)
	if err != nil {
		a.notMade(ch)
		return false, err
	}
	tx.Writes = append(append(tx.Writes, kv.Put(windowsKey, raw)), sums.writes()...)
	_, err = kv.Apply(ctx, d, tx)
	switch {
	case errors.Is(err, kv.ErrPrecondition):
		a.notMade(ch)
		return false, nil
	case errors.Is(err, kv.ErrInDoubt):
		a.doubt = ch
		return false, err
	case err != nil:
		a.notMade(ch)
		return false, err
	}
	a.made(ch)
	return true, nil
}

// plans puts into w the change that an account makes, and returns it with copies of the
// records to settle. It returns nil if there is no room for a lease.
func (a *Account) plans(w *windows, needs []need, flush bool, now time.Time) (*change, []Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(now)
	a.serial++
	ch := &change{serial: a.serial, until: now.Add(LeaseTerm),
		ends: map[*counter]time.Time{}, epochs: map[*counter]uint64{}, leased: map[*counter]int64{}, used: map[*counter]int64{}, returned: map[*counter]int64{}}
	var records []Record
	for _, e := range a.closed {
		if !e.stored && now.Before(e.rides) {
			continue
		}
		if len(records) >= (maxSettledWrites/2)/maxRecordWrites && !small(records) {
			break
		}
		ch.settled = append(ch.settled, e)
		records = append(records, e.rec)
	}
	l := w.Leases[a.lease]
	if l == nil && len(w.Leases) >= maxLeases {
		return nil, nil
	}
	rest := len(ch.settled) == len(a.closed) && a.runs == 0 && a.beside == nil && flush
	l = &lease{Serial: ch.serial, Expires: ch.until.UTC(), Amounts: map[string]int64{}}
	for _, c := range a.counters {
		rest = a.planCounter(w, l, ch, c, needs, now) && rest
	}
	if w.Leases[a.lease] = l; rest {
		delete(w.Leases, a.lease)
		ch.released, ch.leased = true, map[*counter]int64{}
		for _, c := range a.counters {
			ch.giveBack(c, 0)
		}
	}
	return ch, records
}

// small reports whether records have few writes each, so that more fit a transaction.
func small(records []Record) bool {
	writes := 0
	for i := range records {
		writes += 2 + 2*(len(records[i].Calls)+1)
	}
	return writes < maxSettledWrites/2
}

// planCounter settles the use of one counter and leases what it needs. It reports whether
// nothing of it is reserved or left to settle.
func (a *Account) planCounter(w *windows, l *lease, ch *change, c *counter, needs []need, now time.Time) (rest bool) {
	var settled int64
	for _, e := range ch.settled {
		settled += e.amount(c)
	}
	open := c.used - settled
	want := int64(0)
	for _, n := range needs {
		if n.of == c.limit.Resource {
			want += n.n
		}
	}
	wanted := want > 0 || len(needs) > 0 && slices.ContainsFunc(needs, func(n need) bool { return n.of == c.limit.Resource })
	if c.used == 0 && c.reserved == 0 && !wanted && w.Windows[c.id] == nil {
		return true // no window has begun
	}
	b := w.begun(c.limit, c.id, now)
	if !c.ends.IsZero() && !c.ends.Equal(b.Ends) { // another host has begun the next window, by its clock
		c.endWindow()
		settled, open = 0, 0
	}
	b.Spent = max(0, b.Spent+settled)
	held := max(open, 0) + c.reserved
	left := c.limit.Amount - b.Spent - w.leasedByOthers(a.lease, c.id) - held
	extra := min(max(c.free(), 0), c.limit.block())
	if wanted {
		extra = max(want, c.limit.block())
	}
	extra = min(extra, left) // negative: more is used than the limit
	if n := held + max(extra, 0); n > 0 {
		l.Amounts[c.id] = n
	}
	ch.ends[c], ch.epochs[c], ch.used[c] = b.Ends, c.epoch, settled
	ch.leased[c] = open + c.reserved + extra
	ch.giveBack(c, extra)
	return open == 0 && c.reserved == 0
}

// made takes a change over that was committed.
func (a *Account) made(ch *change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, ends := range ch.ends {
		if c.epoch != ch.epochs[c] { // the window has ended meanwhile
			continue
		}
		c.ends, c.leased, c.dry = ends, ch.leased[c], time.Time{}
		c.used -= ch.used[c]
	}
	a.closed = slices.DeleteFunc(a.closed, func(e *entry) bool { return slices.Contains(ch.settled, e) })
	a.held, a.until = !ch.released, ch.until
	if ch.released {
		a.until = time.Time{}
	}
}

// giveBack leaves no more of a counter to be used than free: from the commit of the change
// on, other hosts may lease the rest. The account is locked.
func (ch *change) giveBack(c *counter, free int64) {
	if over := c.free() - free; over > 0 {
		c.leased -= over
		ch.returned[c] += over
	}
}

// notMade undoes what giveBack did for a change that was not committed.
func (a *Account) notMade(ch *change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, n := range ch.returned {
		if c.epoch == ch.epochs[c] {
			c.leased += n
		}
	}
}

// resolve finds out whether a change was committed whose outcome was not known.
func (a *Account) resolve(w *windows) {
	ch := a.doubt
	a.doubt = nil
	if ch == nil {
		return
	}
	l := w.Leases[a.lease]
	if l == nil && ch.released || l != nil && l.Serial == ch.serial {
		a.made(ch)
	}
}

// dropRecovered forgets the records that another host has settled because this host had
// not renewed its lease.
func (a *Account) dropRecovered(ctx context.Context, w *windows) error {
	a.mu.Lock()
	var stored []*entry
	if a.held && w.Leases[a.lease] == nil {
		stored = slices.DeleteFunc(slices.Clone(a.closed), func(e *entry) bool { return !e.stored })
	}
	a.mu.Unlock()
	for _, e := range stored {
		_, err := a.ledger.driver.Get(ctx, a.partition, openKey(a.lease, e.n))
		if err == nil {
			continue
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		a.mu.Lock()
		for _, c := range a.counters {
			c.used -= e.amount(c)
		}
		a.closed = slices.DeleteFunc(a.closed, func(o *entry) bool { return o == e })
		a.mu.Unlock()
	}
	return nil
}

// left returns how much of a limit all hosts may still use, and when its window ends. The
// account's own use counts with its value in memory. The account is locked.
func (a *Account) left(w *windows, c *counter) (n int64, ends time.Time) {
	b := cmp.Or(w.Windows[c.id], &window{})
	return c.limit.Amount - b.Spent - w.leasedByOthers(a.lease, c.id) - c.used - c.reserved, b.Ends
}
