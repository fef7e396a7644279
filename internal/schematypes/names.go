package schematypes

import (
	"strconv"
	"strings"
	"unicode"
)

// maxName bounds an identifier.
const maxName = 64

// names gives out identifiers of one scope.
type names struct {
	reserved map[string]bool
	used     map[string]bool
	next     map[string]int // the first number that a name may still have behind it
}

func newNames(reserved string) *names {
	n := &names{reserved: map[string]bool{}, used: map[string]bool{}, next: map[string]int{}}
	for _, word := range strings.Fields(reserved) {
		n.reserved[word] = true
	}
	return n
}

// unique returns an identifier that was not given out yet, like the one that is wanted.
func (n *names) unique(wanted string) string {
	if n.reserved[wanted] {
		wanted += "_"
	}
	name := wanted
	for i := max(2, n.next[wanted]); n.used[name] || n.reserved[name]; i++ {
		name = wanted + strconv.Itoa(i)
		n.next[wanted] = i + 1
	}
	n.used[name] = true
	return name
}

// words cuts a name at what no identifier has, and where a capital follows a small letter.
func words(name string) (list []string) {
	word, size := strings.Builder{}, 0
	end := func() {
		if word.Len() > 0 {
			list = append(list, word.String())
		}
		word.Reset()
	}
	small := false
	for _, r := range name {
		letter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !letter || small && unicode.IsUpper(r) {
			end()
		}
		if small = letter && !unicode.IsUpper(r); letter {
			word.WriteRune(r)
			if size++; size == maxName {
				break
			}
		}
	}
	end()
	return list
}

// pascal returns a name as identifiers of types are written: OrderItem.
func pascal(name string) string {
	out := strings.Builder{}
	for _, w := range words(name) {
		out.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return beginsWithLetter(out.String(), "T")
}

// snake returns a name as fields are written in Rust: order_item.
func snake(name string) string {
	return beginsWithLetter(strings.ToLower(strings.Join(words(name), "_")), "f")
}

// beginsWithLetter puts a letter before a name that begins with none.
func beginsWithLetter(name, letter string) string {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return letter + name
	}
	return name
}

// maxDescription bounds a description, in characters.
const maxDescription = 4_000

// lines returns the lines of a description, of which none can end a comment or change how
// the ones after it are read. Without a description it returns none.
func lines(description string) (list []string) {
	if runes := []rune(description); len(runes) > maxDescription {
		description = string(runes[:maxDescription]) + "…"
	}
	for line := range strings.FieldsFuncSeq(description, isLineEnd) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return ' '
		}, line)
		// A mark of a comment's end, and a mark of orders to a compiler, are written apart.
		// One after the other, since the marks may share a letter.
		line = strings.ReplaceAll(line, "*/", "* /")
		line = strings.NewReplacer("/*", "/ *", "@ts-", "@ ts-").Replace(line)
		if line = strings.TrimRight(line, " \\"); strings.TrimSpace(line) != "" {
			list = append(list, line)
		}
	}
	return list
}

func isLineEnd(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// TypeName returns the name that Declare gives a Type, unless another has it, in every
// language but C, where it is in small letters.
func TypeName(name string) string { return pascal(name) }
