package host

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Checksums are for stores that keep results or messages in tables of their own:
// the same thing, sent again after its answer got lost or read on another
// machine, has the same sum. AgentKit's are of local time in whole seconds, so
// they differ between time zones and agree for different results; these do
// neither.

// Checksum returns a hash of what the result says and when: who spoke, the
// answers and tool results, and the time of creation to the nanosecond. It
// depends on no time zone and on no id. It is, in hexadecimal, the SHA-256 of
// the JSON text
//
//	["AGENT","2006-01-02T15:04:05.999999999Z",["ROLE",PARTS],...]
//
// with an element for each message, PARTS as the plugin contract has them, and
// nothing between the tokens.
func (r *Result) Checksum() string { return checksum(r.Agent, r.CreatedAt, r.Messages...) }

// Checksum returns a hash of what the message says and when: that of
// [Result.Checksum] for a result of the message's agent and time that holds this
// one message.
func (m *Message) Checksum() string { return checksum(m.Agent, m.CreatedAt, m) }

func checksum(agent string, created time.Time, messages ...*Message) string {
	b := appendString([]byte{'['}, agent)
	b = append(b, `,"`...)
	b = created.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	for _, m := range messages {
		b = append(b, `,[`...)
		b = appendString(b, string(m.Role))
		b = append(b, ',')
		b = append(appendParts(b, m.Parts), ']')
	}
	sum := sha256.Sum256(append(b, ']'))
	return hex.EncodeToString(sum[:])
}
