package trace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// A line of a run's file ends with a member "sum": a digest of the file's name and the
// rest of the line. It detects a changed line, and a line of another file. Lines that an
// earlier version wrote have none.
const (
	sumBegin = `,"sum":"`
	sumEnd   = `"}`
	sumBytes = 8
)

// withSum returns a line, a JSON object with members, with its digest in the file of a
// name.
func withSum(name string, line []byte) []byte {
	sum := sumOf(name, line)
	out := append(make([]byte, 0, len(line)+len(sumBegin)+len(sum)+len(sumEnd)), line[:len(line)-1]...)
	return append(append(append(out, sumBegin...), sum...), sumEnd...)
}

// splitSum returns a line without its digest, and the digest; none for a line of an
// earlier version.
func splitSum(line []byte) (rest []byte, sum string) {
	line = bytes.TrimSpace(line)
	at := len(line) - len(sumBegin) - hex.EncodedLen(sumBytes) - len(sumEnd)
	if at < 1 || !bytes.HasPrefix(line[at:], []byte(sumBegin)) || !bytes.HasSuffix(line, []byte(sumEnd)) {
		return line, ""
	}
	return append(line[:at:at], '}'), string(line[at+len(sumBegin) : len(line)-len(sumEnd)])
}

func sumOf(name string, line []byte) string {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{'\n'})
	h.Write(line)
	return hex.EncodeToString(h.Sum(nil)[:sumBytes])
}

// checkSums returns the lines of the file of a name with an empty line in place of each
// whose digest differs. If a line has a digest, so must the others.
func checkSums(name string, text []byte) []byte {
	out, plain, summed := make([]byte, 0, len(text)), make([]byte, 0, len(text)), false
	for line := range bytes.Lines(text) {
		rest, sum := splitSum(line)
		switch {
		case sum == "":
			plain = append(append(plain, rest...), '\n')
		case sum == sumOf(name, rest):
			out = append(out, rest...)
		}
		out = append(out, '\n')
		summed = summed || sum != ""
	}
	if !summed {
		return plain // an earlier version wrote the file
	}
	return out
}
