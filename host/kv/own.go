package kv

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ownPartitions is the prefix of the partitions of programs that embed a host. The host's
// own begin with "agenthost/", and no tenant has such a name.
const ownPartitions = "agenthost/own/"

// MaxOwnNameBytes is the longest name of a program's partition.
const MaxOwnNameBytes = 200

// OwnPartition returns the partition of a name for rows of the program that embeds a host:
// no package of this module and no tenant has anything in it. It is backed up and copied
// with the store, and stays when a tenant is deleted: rows about one tenant are better in
// the tenant's partition, below [OwnKey]. [ErrInvalid] or a *[LimitError] unless the name
// is UTF-8 of 1 to [MaxOwnNameBytes] bytes without control characters.
func OwnPartition(name string) (string, error) {
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", invalidf("%q is no name for a partition; use UTF-8 without control characters", name)
	}
	if err := within("name of a partition", len(name), MaxOwnNameBytes, "bytes"); err != nil {
		return "", err
	}
	return ownPartitions + name, nil
}

// OwnKey returns a key for rows of the program that embeds a host in the partition of a
// tenant: no package of this module has a key that begins with it. Such rows are encrypted
// with the key of the tenant and are deleted with the tenant.
func OwnKey(elems ...string) Key { return NewKey("own").With(elems...) }
