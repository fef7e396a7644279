package badgerkv

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// engine is Badger in a directory, which makes one commit at a time. Its parts are set
// before the store opens and do not change; commits and reads are safe for concurrent
// use.
type engine struct {
	dir     string
	minFree uint64 // Options.MinFree
	logger  *slog.Logger
	db      *badger.DB
	commit  func(*badger.Txn) error // badger.Txn.Commit; tests replace it to make it fail
	turn    chan struct{}           // the commit token: full while a commit runs
	broken  atomic.Pointer[error]   // the error that stopped all commits

	describing sync.Mutex // held while the inventory is written, and while it describes a drop
}
