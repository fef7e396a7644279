package pgkv

import (
	"context"
	"fmt"
	"iter"

	"github.com/agenthost/agenthost/host/kv"
)

// partitionsPage is how many names of partitions are read at a time.
const partitionsPage = 1000

// partitionsSQL skips partitions without entries, which a deletion has left or a
// condition has made.
const partitionsSQL = `
select p.name from {schema}.partitions p
where p.name > $1 and not p.erasing and exists (select from {schema}.entries e where e.partition = p.id)
order by p.name limit $2`

// Partitions yields the names of the partitions that have entries, in ascending order. A
// partition that is written to meanwhile may be missed. An error is yielded last.
func (s *Store) Partitions(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after := ""; ; {
			names, err := s.partitionsAfter(ctx, after)
			if err != nil {
				yield("", fmt.Errorf("list partitions: %w", err))
				return
			}
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
			if len(names) < partitionsPage {
				return
			}
			after = names[len(names)-1]
		}
	}
}

func (s *Store) partitionsAfter(ctx context.Context, after string) (names []string, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	err = s.repeat(ctx, func(ctx context.Context) error {
		names = nil
		rows, err := s.pool.Query(ctx, s.sql.partitions, []byte(after), partitionsPage)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name []byte
			if err := rows.Scan(&name); err != nil {
				return err
			}
			if len(name) > kv.MaxPartitionBytes {
				return errorf(kv.ErrCorrupt, "a partition's name is longer than any that is written")
			}
			names = append(names, string(name))
		}
		return rows.Err()
	})
	return names, err
}
