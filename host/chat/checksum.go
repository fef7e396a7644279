package chat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Checksums are for stores that keep results or messages in tables of their own: the
// same message, sent again after its answer got lost or read on another machine, has
// the same sum. AgentKit's are of local time in whole seconds, so they differ between
// time zones and agree for different results; these do neither.

// Checksum returns a hash of the contents and the time of a message: that of
// [Checksum] for its agent, its time and this one message.
func (m *Message) Checksum() string { return Checksum(m.Agent, m.CreatedAt, m) }

// Checksum returns a hash of an agent, a time to the nanosecond, and messages. It
// depends on no time zone and on no id. It is, in hexadecimal, the SHA-256 of the JSON
// text
//
//	["AGENT","2006-01-02T15:04:05.999999999Z",["ROLE",PARTS],...]
//
// with an element for each message, PARTS as the plugin contract has them, and
// nothing between the tokens. The characters <, >, &, U+2028 and U+2029 stand for
// themselves also in arguments, contents and unknown members, where
// [encoding/json] writes them as \u003c and so on: a message that it has written and
// read has the sum that it had.
func Checksum(agent string, created time.Time, messages ...*Message) string {
	b := jsondoc.AppendString([]byte{'['}, agent)
	b = append(b, `,"`...)
	b = created.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	for _, m := range messages {
		b = append(b, `,[`...)
		b = jsondoc.AppendString(b, string(m.Role))
		b = append(b, ',')
		parts := len(b)
		b = appendParts(b, m.Parts)
		b = append(plainJSON(b[:parts], b[parts:]), ']')
	}
	sum := sha256.Sum256(append(b, ']'))
	return hex.EncodeToString(sum[:])
}

// escapedByGo are the escapes that encoding/json writes and JSON does not need.
var escapedByGo = map[string]string{"003c": "<", "003e": ">", "0026": "&", "2028": "\u2028", "2029": "\u2029"}

// plainJSON appends valid JSON to dst without white space between its tokens and
// without the escapes of escapedByGo. dst may end where raw begins: the appended
// JSON is not longer than raw.
func plainJSON(dst, raw []byte) []byte {
	inString := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		case c == '"':
			inString = !inString
		case c == '\\' && raw[i+1] == 'u' && i+6 <= len(raw):
			if plain, ok := escapedByGo[string(bytes.ToLower(raw[i+2:i+6]))]; ok {
				dst = append(dst, plain...)
				i += 5
				continue
			}
		}
		dst = append(dst, c)
		if c == '\\' {
			i++ // an escaped quote does not end the string
			dst = append(dst, raw[i])
		}
	}
	return dst
}
