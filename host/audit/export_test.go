package audit

import "github.com/agenthost/agenthost/host/kv"

// The places of the log's rows, for tests that damage them.
const Partition = partition

func EntryKey(seq uint64) kv.Key { return entryRows.WithUint(seq) }

var HeadKey = headKey
