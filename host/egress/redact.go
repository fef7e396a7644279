package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// redacted stands where a secret was.
const redacted = "[redacted]"

// minRedacted is the length below which a form of a secret is not searched for:
// it would be found everywhere.
const minRedacted = 6

// Redactor removes secrets from bytes on their way to a reader who must not see
// them: in plain text, JSON, URLs, HTML, hexadecimal, and base64 at any position of
// the encoded text. It is a courtesy to honest servers that echo what they were
// sent. A malicious server can spell a secret in a way that no Redactor searches
// for; that is why a secret is bound to hosts. The zero Redactor removes nothing.
// It may be used by many goroutines once the last Add has returned.
type Redactor struct {
	forms []string // longest first
}

// NewRedactor returns a redactor of these secrets.
func NewRedactor(secrets ...Secret) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		r.Add(s)
	}
	return r
}

// Add takes one more secret out.
func (r *Redactor) Add(s Secret) {
	for _, form := range formsOf(s.Reveal()) {
		if len(form) >= minRedacted && !slices.Contains(r.forms, form) {
			r.forms = append(r.forms, form)
		}
	}
	slices.SortStableFunc(r.forms, func(a, b string) int { return len(b) - len(a) })
}

// Empty reports whether there is nothing to take out.
func (r *Redactor) Empty() bool { return len(r.forms) == 0 }

// Redact returns b without the secrets. It is b itself if it holds none.
func (r *Redactor) Redact(b []byte) []byte {
	for _, form := range r.forms {
		if bytes.Contains(b, []byte(form)) {
			b = bytes.ReplaceAll(b, []byte(form), []byte(redacted))
		}
	}
	return b
}

// RedactString returns s without the secrets.
func (r *Redactor) RedactString(s string) string {
	for _, form := range r.forms {
		s = strings.ReplaceAll(s, form, redacted)
	}
	return s
}

// formsOf returns the spellings of a secret that are searched for.
func formsOf(v string) []string {
	hexed := hex.EncodeToString([]byte(v))
	query, path := url.QueryEscape(v), url.PathEscape(v)
	forms := []string{v, query, path, lowerEscapes(query), lowerEscapes(path), percentAll(v), strings.ToLower(percentAll(v)),
		hexed, strings.ToUpper(hexed), htmlEscape(v)}
	for _, form := range forms {
		forms = append(forms, jsonInner(form, false), jsonInner(form, true))
	}
	forms = append(forms, base64Forms(v)...)
	// Basic authentication holds user:password in base64; a server that decodes it
	// echoes the text.
	if plain, err := base64.StdEncoding.DecodeString(v); err == nil && bytes.IndexByte(plain, ':') >= 0 {
		forms = append(forms, string(plain))
		if _, password, ok := strings.Cut(string(plain), ":"); ok {
			forms = append(forms, password)
		}
	}
	return forms
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

func percentAll(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, 3*len(s))
	for i := range len(s) {
		b = append(b, '%', digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}

func htmlEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

func jsonInner(s string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(s) != nil {
		return s
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// base64Forms returns the part of v's base64 that is independent of the bytes
// before and after v, for each of its three possible start positions.
func base64Forms(v string) []string {
	var out []string
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), v...))
		from := []int{0, 2, 3}[before]
		to := len(encoded)
		if (before+len(v))%3 != 0 {
			to--
		}
		if from < to {
			core := encoded[from:to]
			out = append(out, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
		}
	}
	return out
}

// redactError takes the secrets out of an error's sentences. The cause goes: it
// may print them.
func (f *fetch) redactError(err error) error {
	var e *fault.Error
	if f.redactor.Empty() || !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message, out.Hint = f.redactor.RedactString(e.Message), f.redactor.RedactString(e.Hint)
	var addr *AddressError
	if out.Err = nil; errors.As(err, &addr) {
		out.Err = addr
	}
	return &out
}
