package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
)

// maxToolName bounds the name of a tool in an agent, as providers of models do.
const maxToolName = 64

// fitName returns a name that every provider takes: other characters become underscores,
// and a name that loses something ends with a part of its digest, so that two names do not
// become one.
func fitName(name string) string {
	fit := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, name)
	if fit == name && len(fit) <= maxToolName && fit != "" {
		return fit
	}
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:4])
	return fit[:min(len(fit), maxToolName-len(mark))] + mark
}

// plainText returns a server's text without characters that people do not see, at most most
// bytes of it: controls but line breaks and tabs, direction marks, zero widths, tags.
func plainText(text string, most int) string {
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == unicode.ReplacementChar, unicode.Is(unicode.C, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if cut {
		text += "…"
	}
	return strings.TrimSpace(text)
}

// plainLine is plainText without line breaks.
func plainLine(text string, most int) string {
	return strings.Join(strings.Fields(plainText(text, most)), " ")
}
