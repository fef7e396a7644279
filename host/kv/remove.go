package kv

import (
	"context"
	"errors"
)

// Remove deletes every key of a partition that begins with prefix, a page at a
// time: a reader may see some of them removed and others not. Entries written there
// meanwhile may stay. From a [Checked] driver it also removes damaged entries.
func Remove(ctx context.Context, d Driver, partition string, prefix Key) error {
	d = Unchecked(d)
	r := Range{Prefix: prefix, Limit: min(MaxScanLimit, MaxTxWrites)}
	for {
		page, err := d.Scan(ctx, partition, r)
		if damaged := (*EntryError)(nil); errors.As(err, &damaged) {
			page, err = Page{Entries: []Entry{{Key: damaged.Key}}}, nil
		}
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		tx := Tx{Partition: partition}
		for _, e := range page.Entries {
			tx.Writes = append(tx.Writes, Delete(e.Key))
		}
		if _, err := Apply(ctx, d, tx); err != nil {
			return err
		}
	}
}
