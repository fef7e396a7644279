package audit

import "github.com/agenthost/agenthost/host/kv"

// The places of the log's rows, for tests that damage them.
const Partition = partition

func EntryKey(seq uint64) kv.Key { return entryRows.WithUint(seq) }

var HeadKey, StartKey = headKey, startKey

func TenantKey(tenant string, seq uint64) kv.Key { return tenantRows.With(tenant).WithUint(seq) }
