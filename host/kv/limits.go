package kv

// These limits are part of the contract: every driver accepts sizes within
// them and refuses the rest with a *[LimitError], so that data can move from
// one driver to another.
const (
	// MaxPartitionBytes is the longest partition name.
	MaxPartitionBytes = 255
	// MaxKeyBytes is the longest key. Partition and key together stay below
	// what a PostgreSQL index row holds (2,704 bytes).
	MaxKeyBytes = 1024
	// MaxValueBytes is the longest value. Larger content is written in chunks by the
	// layer above.
	MaxValueBytes = 512 << 10
	// MaxTxConds is the most conditions in one Tx.
	MaxTxConds = 1024
	// MaxTxWrites is the most writes in one Tx.
	MaxTxWrites = 1024
	// MaxTxBytes bounds [Tx.Size].
	MaxTxBytes = 2 << 20
	// MaxCommitTxs is the most Txs in one Commit.
	MaxCommitTxs = 1024
	// MaxScanLimit is the highest Limit of a Range.
	MaxScanLimit = 1000
	// DefaultScanLimit is the Limit of a Range that names none.
	DefaultScanLimit = 100
	// MaxScanBytes ends a page: the entry that reaches it is the last.
	MaxScanBytes = 4 << 20
)
