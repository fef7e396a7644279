package kv

// Range says what to scan: the entries whose keys begin with Prefix, from one
// end or from a key inside, up to Limit of them. The zero Range is the first
// page of a whole partition in ascending order.
type Range struct {
	// Prefix is the prefix of every key; empty is the whole partition.
	Prefix Key
	// From is the key to begin with, included if it exists. Ascending, the
	// page has keys >= From; with Reverse, keys <= From. It need not begin with Prefix:
	// the page has the keys that satisfy both.
	From Key
	// After is From without the key itself, which is how the next page begins
	// after the last key of this one. Only one of From and After may be set.
	After Key
	// Reverse reads in descending order of keys.
	Reverse bool
	// Limit is the most entries in the page; 0 is [DefaultScanLimit].
	Limit int
}

// Next is the Range of the page that follows page.
func (r Range) Next(page Page) Range {
	if n := len(page.Entries); n > 0 {
		r.From, r.After = "", page.Entries[n-1].Key
	}
	return r
}

// Validate returns an [ErrInvalid] or a *[LimitError] if no store may answer
// the scan. Drivers call it first.
func (r Range) Validate(partition string) error {
	if err := validPartition(partition); err != nil {
		return err
	}
	if r.From != "" && r.After != "" {
		return invalidf("range has both From and After; choose one")
	}
	if r.Limit < 0 {
		return invalidf("range has limit %d; 0 is the default", r.Limit)
	}
	for _, k := range []Key{r.Prefix, r.From, r.After} {
		if err := within("key in range", len(k), MaxKeyBytes, "bytes"); err != nil {
			return err
		}
	}
	return within("range", r.Limit, MaxScanLimit, "entries as limit")
}

// Bounds returns the range as bounds, which engines understand: all keys k with low <=
// k < high, where an empty high is no bound. If no key can be in range, low >= high and
// high is not empty.
func (r Range) Bounds() (low, high Key) {
	low, high = r.Prefix, r.Prefix.successor()
	switch {
	case r.Reverse && r.After != "":
		high = lowest(high, r.After)
	case r.Reverse && r.From != "":
		high = lowest(high, r.From+"\x00")
	case r.After != "":
		low = max(low, r.After+"\x00")
	default:
		low = max(low, r.From)
	}
	return low, high
}

// lowest is the lower of two upper bounds, of which a may be "none".
func lowest(a, b Key) Key {
	if a == "" {
		return b
	}
	return min(a, b)
}

// successor is the first key after all that begin with k; "" without one.
// It works on bytes: strings.TrimRight would take every byte that is not UTF-8
// for 0xFF.
func (k Key) successor() Key {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i] != 0xFF {
			return k[:i] + Key([]byte{k[i] + 1})
		}
	}
	return ""
}

// PageBuilder collects the entries of a page for a driver and says when to
// stop. The driver walks its entries in order:
//
//	for _, entry := range entries {
//		if !b.Room() {
//			break
//		}
//		b.Add(entry)
//	}
type PageBuilder struct {
	page  Page
	limit int
	bytes int
}

// NewPageBuilder returns a builder for one page of r, which must be valid.
func NewPageBuilder(r Range) *PageBuilder {
	limit := r.Limit
	if limit == 0 {
		limit = DefaultScanLimit
	}
	return &PageBuilder{limit: limit}
}

// Room reports whether another entry may be added. Call it only when another entry
// exists: if it returns false, it sets the page's More.
func (b *PageBuilder) Room() bool {
	if len(b.page.Entries) < b.limit && b.bytes < MaxScanBytes {
		return true
	}
	b.page.More = true
	return false
}

// Add appends an entry.
func (b *PageBuilder) Add(e Entry) {
	b.page.Entries = append(b.page.Entries, e)
	b.bytes += len(e.Key) + len(e.Value)
}

// Page returns the collected entries.
func (b *PageBuilder) Page() Page { return b.page }
