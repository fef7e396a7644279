package badgerkv

import (
	"strings"

	"github.com/agenthost/agenthost/host/kv"
)

// The first byte of a Badger key.
const (
	ownSpace  = 0x00 // keys of this package
	dataSpace = 0x01 // entries
)

// The length of a partition fits in one byte.
const _ uint8 = kv.MaxPartitionBytes

// deletionKey is written by every deletion, for its version.
var deletionKey = string([]byte{ownSpace, 'd'})

// lastKey is above every key that may be stored.
var lastKey = strings.Repeat("\xff", kv.MaxKeyBytes+1)

// engineKey returns the Badger key of an entry. With an empty key, it returns the
// prefix of all keys of the partition.
func engineKey(partition string, key kv.Key) []byte {
	return appendEngineKey(make([]byte, 0, 2+len(partition)+len(key)), partition, key)
}

// partitionIn returns the partition of an engine key.
func partitionIn(engineKey []byte) string {
	if len(engineKey) < 2 || len(engineKey) < 2+int(engineKey[1]) {
		return ""
	}
	return string(engineKey[2 : 2+int(engineKey[1])])
}

func appendEngineKey(b []byte, partition string, key kv.Key) []byte {
	b = append(b, dataSpace, byte(len(partition)))
	b = append(b, partition...)
	return append(b, key...)
}
