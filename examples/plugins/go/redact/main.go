// Command redact is a plugin: a processor that takes mail addresses and card numbers out of
// what models see.
package main

import (
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "redact", Version: "1.0.0", Description: "Hides mail addresses and card numbers from models."})
	pdk.Processor("redact", func(p *pdk.Process) error {
		p.MapStrings(func(text string) string { return hideCards(hideMail(text)) }) // messages that do not change are not sent back
		return nil
	})
}

func main() {} // never runs: the host calls what init has registered

// hideMail replaces addresses: a run of letters before an @, and a domain behind it.
func hideMail(text string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		from, to := at, domainEnd(text, at+1)
		for from > 0 && isLocal(text[from-1]) {
			from--
		}
		if from == at || to == at+1 { // no address
			out.WriteString(text[:at+1])
			text = text[at+1:]
			continue
		}
		out.WriteString(text[:from])
		out.WriteString("[mail]")
		text = text[to:]
	}
}

// domainEnd returns where a domain ends that begins at an index: behind its last letter. It is
// the index itself if no domain begins there.
func domainEnd(text string, from int) int {
	end := from
	for i := from; i < len(text) && (isWord(text[i]) || i > from && isDomain(text[i])); i++ {
		if isWord(text[i]) {
			end = i + 1
		}
	}
	return end
}

func isWord(b byte) bool {
	return b == '_' || isDigit(b) || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}
func isDomain(b byte) bool { return isWord(b) || b == '.' || b == '-' }
func isLocal(b byte) bool  { return isDomain(b) || b == '%' || b == '+' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }

// hideCards replaces runs of 13 digits or more, between which may be single spaces or hyphens.
func hideCards(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
			out.WriteByte(text[i])
			i++
			continue
		}
		end, digits := i, 0
		for next := i; next < len(text) && isDigit(text[next]); digits++ {
			end = next + 1
			next = end
			if next < len(text) && (text[next] == ' ' || text[next] == '-') {
				next++
			}
		}
		if digits >= 13 {
			out.WriteString("[card]")
		} else {
			out.WriteString(text[i:end])
		}
		i = end
	}
	return out.String()
}
