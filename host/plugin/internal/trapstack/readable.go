package trapstack

import (
	"regexp"
	"strconv"
	"strings"
)

// localPrefix begins the names of functions that LLVM keeps to their object.
const localPrefix = ".L"

// rustHash matches the last part of a name of Rust, which tells versions of a function apart.
var rustHash = regexp.MustCompile(`^h[0-9a-f]{16}$`)

// rustMarks are the letters that names of Rust have in the place of others.
var rustMarks = strings.NewReplacer("$LT$", "<", "$GT$", ">", "$LP$", "(", "$RP$", ")", "$C$", ",", "$RF$", "&", "$BP$", "*",
	"$u20$", " ", "$u27$", "'", "$u5b$", "[", "$u5d$", "]", "$u7b$", "{", "$u7d$", "}", "$u7e$", "~", "$u3b$", ";", "..", "::")

// Readable returns the name that a function has in its source, where its toolchain's name
// says it: Rust's _ZN5hello5greet17h0123456789abcdefE is hello::greet.
func Readable(name string) string {
	name = strings.TrimPrefix(name, localPrefix)
	rest, mangled := strings.CutPrefix(name, "_ZN")
	if !mangled || !strings.HasSuffix(rest, "E") {
		return name
	}
	var parts []string
	for rest != "E" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n <= 0 || n >= len(rest)-digits {
			return name
		}
		parts = append(parts, rest[digits:digits+n])
		rest = rest[digits+n:]
	}
	if last := len(parts) - 1; last > 0 && rustHash.MatchString(parts[last]) {
		parts = parts[:last]
	}
	for i, part := range parts {
		if strings.HasPrefix(part, "_$") { // an identifier begins with a letter
			part = part[1:]
		}
		parts[i] = rustMarks.Replace(part)
	}
	return strings.Join(parts, "::")
}
