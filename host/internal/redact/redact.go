// Package redact takes paths, addresses and stacks out of the text of a failure.
//
// The input is the text of any error: one line, the report of a panic, the traceback of
// another language. The output is one line that a model may read. Pointers into JSON,
// routes of an API and addresses of web pages stay, because a model can act on them;
// paths of files, addresses of servers and addresses that name a user become general
// words. Texts are bounded, so a long one costs no more than [MaxRead] bytes.
package redact

import (
	"net/netip"
	"regexp"
	"strings"
)

// The bounds of texts, in bytes.
const (
	MaxLine = 500     // of a line of output
	MaxRead = 8 << 10 // of a text that is read
)

// Line returns the first line of a text, at most [MaxLine] bytes of it, without stacks,
// paths and addresses of servers; it may be empty.
func Line(text string) string {
	return Cut(strings.Join(strings.Fields(withoutPlaces(firstLine(text))), " "))
}

// tracebackBegins is the beginning of a traceback in Python, whose last line has the
// error.
const tracebackBegins = "Traceback (most recent call last)"

// stackBegins matches the beginning of a stack in a line that was joined from many.
// After "at" it only matches positions in a program, not other places.
var stackBegins = regexp.MustCompile(`(?:^|\s)(?:goroutine \d+ \[|at (?:async |new )?[\w.$<>]+ ?\((?:[^()]*[./\\:][^()]*:\d+|native|Native Method|Unknown Source|<anonymous>)\)|File "[^"]*", line \d+)`)

func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, tracebackBegins) {
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	line, _, _ := strings.Cut(text[:min(len(text), MaxRead)], "\n")
	if at := stackBegins.FindStringIndex(line); at != nil {
		line = line[:at[0]]
	}
	return line
}

// The words that replace text which is withheld from the model.
const (
	somePath    = "(path)"
	someAddress = "(address)"
)

// withUser matches an address that may have a user name and a password of any
// characters.
var withUser = regexp.MustCompile("(?i)[a-z][a-z0-9+.-]*://[^\\s\"'<>`]*@[^\\s\"'<>`,;)]*")

// withoutUsers replaces addresses that name a user by general words. In the address of
// a page an @ may also follow the server's name.
func withoutUsers(line string) string {
	return withUser.ReplaceAllStringFunc(line, func(address string) string {
		scheme, rest, _ := strings.Cut(address, "://")
		authority, _, _ := strings.Cut(rest, "/")
		if strings.HasPrefix(strings.ToLower(scheme), "http") && !strings.Contains(authority, "@") {
			return address
		}
		return someAddress
	})
}

// withoutPlaces replaces paths of files and addresses of servers by general words.
// Pointers into JSON, routes of an API and addresses of web pages stay, because a model
// can act on them.
func withoutPlaces(line string) string {
	if !strings.ContainsAny(line, `/\:`) {
		return line
	}
	line = withoutUsers(line)
	var b strings.Builder
	windows := false // the previous word was a Windows path, which may have spaces
	for len(line) > 0 {
		n := strings.IndexAny(line, wordEnds)
		if n < 0 {
			n = len(line)
		}
		word := line[:n]
		onWindows := isWindowsPath(word)
		switch {
		case windows && strings.Contains(word, `\`): // the rest of that path
		case onWindows:
			b.WriteString(somePath)
		default:
			b.WriteString(withoutPlace(word))
		}
		windows = onWindows || windows && (word == "" || strings.Contains(word, `\`))
		if n < len(line) {
			b.WriteByte(line[n])
			n++
		}
		line = line[n:]
	}
	return b.String()
}

// wordEnds are the characters between the words of a failure.
const wordEnds = " \t\"'`<>|(){},;="

// isWindowsPath reports whether a word begins like a Windows path.
func isWindowsPath(word string) bool {
	if strings.HasPrefix(word, `\\`) {
		return len(word) > 2
	}
	return len(word) > 2 && word[1] == ':' && (word[2] == '\\' || word[2] == '/' && !strings.HasPrefix(word[2:], "//")) && isLetter(word[0])
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// withoutPlace returns a word, or the words that replace it.
func withoutPlace(word string) string {
	bare := strings.Trim(word, ".,:!?-") // - is of an arrow
	if scheme, rest, ok := strings.Cut(bare, "://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		switch {
		case strings.EqualFold(scheme, "file"):
			return somePath
		case isAddress(authority) || isIP(strings.Trim(authority, "[]")):
			return someAddress
		}
		return word
	}
	if isAddress(bare) {
		return strings.Replace(word, bare, someAddress, 1)
	}
	pieces := strings.Split(word, ":")
	out := pieces[:0]
	for i := 0; i < len(pieces); i++ {
		numbered := i+1 < len(pieces) && isNumber(pieces[i+1])
		if !isFile(strings.Trim(pieces[i], "[].!?"), numbered) {
			out = append(out, pieces[i])
			continue
		}
		out = append(out, somePath)
		for i+1 < len(pieces) && isNumber(pieces[i+1]) { // line and column
			i++
		}
	}
	return strings.Join(out, ":")
}

// isAddress reports whether a word is an address with a port.
func isAddress(word string) bool {
	_, err := netip.ParseAddrPort(word)
	return err == nil
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// systemRoots are names that begin absolute paths of files, and little else.
var systemRoots = map[string]bool{
	"home": true, "root": true, "tmp": true, "var": true, "etc": true, "usr": true, "opt": true, "srv": true, "mnt": true,
	"proc": true, "sys": true, "dev": true, "boot": true, "sbin": true, "nix": true, "Users": true, "Volumes": true,
	"Library": true, "Applications": true, "private": true, "workspace": true, "builds": true,
}

// isFile reports whether a word is a path of an operating system, or ends like a file's
// name; numbered says that a line number follows it.
func isFile(word string, numbered bool) bool {
	if strings.HasPrefix(word, "~/") {
		return true
	}
	names := strings.Split(strings.TrimPrefix(word, "/"), "/")
	last := names[len(names)-1]
	switch absolute := word != "" && word[0] == '/'; {
	case len(names) == 1:
		return numbered && hasExtension(last) // a position in a program
	case absolute && systemRoots[names[0]]:
		return true
	case !absolute && strings.Contains(strings.TrimLeft(names[0], "."), "."): // a server's name
		return false
	}
	return numbered || hasExtension(last)
}

// hasExtension reports whether a name ends like a file's: "a.go", "pool.yaml".
func hasExtension(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	ext := name[dot+1:]
	return dot > 0 && len(ext) > 0 && len(ext) <= 6 && isLetter(ext[0])
}

// Cut returns the first line of a text, at most [MaxLine] bytes of it.
func Cut(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > MaxLine {
		s = strings.ToValidUTF8(s[:MaxLine], "") + "…"
	}
	return s
}
