package threads

import (
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
)

// The limits that callers meet.
const (
	// DefaultWindow is how many messages Get returns at most, from the end.
	DefaultWindow = 2000
	// DefaultCacheBytes bounds the memory of the decoded messages that a store keeps for
	// the next turns, about.
	DefaultCacheBytes = 64 << 20
	// DefaultMaxWaiting is how many turns may wait for one thread.
	DefaultMaxWaiting = 64
	// DefaultListLimit is how many threads List returns by default.
	DefaultListLimit = 20
	// MaxListLimit is how many it returns at most.
	MaxListLimit = 1000
	// MaxTenantBytes is the longest name of a tenant.
	MaxTenantBytes = host.MaxTenantBytes
	// MaxThreadIDBytes is the longest id of a thread.
	MaxThreadIDBytes = chat.MaxIDBytes
	// MaxMessageIDBytes is the longest id of a message or a run.
	MaxMessageIDBytes = chat.MaxIDBytes
	// MaxTitleRunes is how much of the first input becomes the title.
	MaxTitleRunes = 50
	// MaxTitleBytes is the longest title that can be set.
	MaxTitleBytes = 1 << 10
	// MaxMetadataBytes bounds a thread's metadata as JSON.
	MaxMetadataBytes = 16 << 10
	// MaxViewParts is how many parts edits and deletions may cut a thread into.
	MaxViewParts = 4096
	// ChunkBytes is the size of the pieces that large content is cut into.
	ChunkBytes = 256 << 10
)

// The limits that keep one commit within the bounds of every driver.
const (
	// maxInlineBytes is how much content one commit carries itself. The rest of
	// a transaction is left for keys, the record and the snapshot; content
	// beyond it is written ahead as blobs.
	maxInlineBytes = kv.MaxTxBytes - 512<<10
	// maxTurnEntriesOfOthers and maxEntryOfOthersBytes bound the entries of other parts of
	// the program in the commit of a turn; the rest of them is not in it.
	maxTurnEntriesOfOthers = 16
	maxEntryOfOthersBytes  = 16 << 10
	// maxTurnEntries is how many entries of the log one turn makes. A turn with
	// more messages puts several into an entry.
	maxTurnEntries = 256
	// maxEntryBytes is how many bytes of small messages share an entry of the log, so that
	// to read one of them costs little.
	maxEntryBytes = 16 << 10
	// aheadBytes and aheadWrites bound one transaction of content that is written ahead.
	aheadBytes  = 1 << 20
	aheadWrites = 512
	// maxAttempts is how often a commit starts again because another writer was
	// faster. Of racing commits one always wins, so a commit gives up only against
	// more racers than this.
	maxAttempts = 128
	// queueAfter is the number of lost attempts after which commits wait for each
	// other.
	queueAfter = 4
	// maxErrorBytes is how much of an error's text a snapshot keeps.
	maxErrorBytes = 4 << 10
	// maxWindowBytes ends a window early when messages are huge.
	maxWindowBytes = 64 << 20
	// maxPairSpan is how far into a window a result may be whose call was cut
	// off in front of it: more than the calls that one answer may make.
	maxPairSpan = 256
	// deletePage is how many keys a deletion removes at a time.
	deletePage = 500
	// ownedPage is how many contents of a thread it marks at a time.
	ownedPage = 50
	// maxOrigins is how many other contents a content may refer to.
	maxOrigins = 512
)
