package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host/internal/cache"
)

// ErrUnknown is in the chain of the error for a name that is neither an
// encoding nor a registered tokenizer. The error's text lists those that are.
var ErrUnknown = errors.New("unknown name")

// DefaultCacheEntries is how many counts a [Counter] remembers by default: the
// messages of some thousand conversations, in about 8 MB.
const DefaultCacheEntries = 1 << 16

// minCached is the length in bytes from which finding a remembered count by
// the text is far cheaper than counting with an [Encoding]. Below, nothing is
// remembered.
const minCached = 128

// A Tokenizer counts tokens in a way of its own: with a vocabulary that this
// package lacks, or by asking a service.
type Tokenizer interface {
	// CountTokens returns how many tokens text is, which is not negative.
	// It is called by many goroutines at once. An error means that there is
	// no count; it reaches the caller of [Counter.Count] and is not
	// remembered.
	CountTokens(ctx context.Context, text string) (int, error)
}

// A VersionedTokenizer is a [Tokenizer] whose counts change when it is
// replaced while the program runs, such as one that a plugin serves. Counts
// are remembered under the version of the moment. A Tokenizer without a
// version is taken to count the same for ever.
type VersionedTokenizer interface {
	Tokenizer

	// Version names the present tokenizer. It is asked for before each count,
	// by many goroutines at once, so it must be quick.
	Version() string
}

// Options configures [New]. The zero value is the default.
type Options struct {
	// Tokenizers are further tokenizers by the name they are chosen with,
	// which must be neither empty nor that of an encoding.
	Tokenizers map[string]Tokenizer

	// CacheEntries is how many counts are remembered, at about 130 bytes
	// each. 0 means DefaultCacheEntries, a negative number none.
	CacheEntries int
}

// A Counter knows tokenizers by name and remembers counts. It is safe for
// concurrent use, and two of them share nothing.
//
// A vocabulary is loaded when its encoding is first asked for, and stays; the
// package documentation gives the cost. So a program wants one Counter.
type Counter struct {
	encodings map[string]func() *Encoding
	custom    map[string]customTokenizer
	cache     *cache.Cache[cacheKey, int] // nil to remember nothing
}

// A customTokenizer is an entry of Options.Tokenizers.
type customTokenizer struct {
	Tokenizer
	version func() string // nil if it has none
}

// New returns a Counter that knows the encodings and the tokenizers of opts,
// which may be nil. It loads no vocabulary yet.
func New(opts *Options) (*Counter, error) {
	if opts == nil {
		opts = &Options{}
	}
	c := &Counter{
		encodings: newEncodings(),
		custom:    make(map[string]customTokenizer, len(opts.Tokenizers)),
	}
	for name, t := range opts.Tokenizers {
		if err := c.register(name, t); err != nil {
			return nil, err
		}
	}
	if n := cmp.Or(opts.CacheEntries, DefaultCacheEntries); n > 0 {
		c.cache = cache.New(cache.Options[cacheKey, int]{MaxEntries: n})
	}
	return c, nil
}

// register adds a custom tokenizer.
func (c *Counter) register(name string, t Tokenizer) error {
	switch {
	case name == "":
		return errors.New("register tokenizer: it has no name")
	case t == nil:
		return fmt.Errorf("register tokenizer %q: it is nil", name)
	case c.encodings[name] != nil:
		return fmt.Errorf("register tokenizer %q: an encoding has that name, choose another", name)
	}
	entry := customTokenizer{Tokenizer: t}
	if v, ok := t.(VersionedTokenizer); ok {
		entry.version = v.Version
	}
	c.custom[name] = entry
	return nil
}

// Names lists the encodings, the default one first, and then the custom
// tokenizers in alphabetical order.
func (c *Counter) Names() []string {
	return append(EncodingNames(), slices.Sorted(maps.Keys(c.custom))...)
}

// Encoding returns the encoding of a name, unpacking its vocabulary if this is
// the first time; an empty name means [DefaultEncoding]. The error for
// another name is an [ErrUnknown].
func (c *Counter) Encoding(name string) (*Encoding, error) {
	if name == "" {
		name = DefaultEncoding
	}
	load, ok := c.encodings[name]
	if !ok {
		return nil, fmt.Errorf("encoding %q: %w, known are %s", name, ErrUnknown, strings.Join(EncodingNames(), ", "))
	}
	return load(), nil
}

// Tokenizer returns the encoding or the custom tokenizer of a name, with
// nothing remembered in between; an empty name means [DefaultEncoding]. The
// error for another name is an [ErrUnknown].
func (c *Counter) Tokenizer(name string) (Tokenizer, error) {
	if t, ok := c.custom[name]; ok {
		return t.Tokenizer, nil
	}
	if _, ok := c.encodings[name]; !ok && name != "" {
		return nil, fmt.Errorf("tokenizer %q: %w, known are %s", name, ErrUnknown, strings.Join(c.Names(), ", "))
	}
	return c.Encoding(name)
}

// Count returns how many tokens text is to the tokenizer of a name, as
// [Counter.Tokenizer] takes it. It counts once and then remembers.
func (c *Counter) Count(ctx context.Context, tokenizer, text string) (int, error) {
	if _, custom := c.custom[tokenizer]; c.cache == nil || !custom && len(text) < minCached {
		return c.count(ctx, tokenizer, text)
	}
	return c.CountAs(ctx, tokenizer, KeyOf("", text), func() string { return text })
}

// CountAs is Count of a text that the caller knows by a key: if the count is
// remembered, text is not called and nothing is hashed. The same key must
// always stand for the same text.
func (c *Counter) CountAs(ctx context.Context, tokenizer string, key Key, text func() string) (int, error) {
	if c.cache == nil {
		return c.count(ctx, tokenizer, text())
	}
	if tokenizer == "" {
		tokenizer = DefaultEncoding
	}
	k := cacheKey{tokenizer, key}
	if v := c.custom[tokenizer].version; v != nil {
		k.text = k.text.under(v())
	}
	if n, ok := c.cache.Get(k); ok {
		return n, nil
	}
	n, err := c.count(ctx, tokenizer, text())
	if err == nil {
		c.cache.Put(k, n)
	}
	return n, err
}

// count asks the tokenizer.
func (c *Counter) count(ctx context.Context, tokenizer, text string) (int, error) {
	t, err := c.Tokenizer(tokenizer)
	if err != nil {
		return 0, err
	}
	n, err := t.CountTokens(ctx, text)
	if err != nil {
		return 0, fmt.Errorf("count tokens with %q: %w", tokenizer, err)
	}
	if n < 0 {
		return 0, fmt.Errorf("count tokens with %q: it answers %d, want 0 or more", tokenizer, n)
	}
	return n, nil
}

// EncodingFor is [EncodingForModel] as a method, so that a Counter can be passed
// to code that counts for models.
func (c *Counter) EncodingFor(model string) (name string, exact bool) {
	return EncodingForModel(model)
}

// CountTokens is [Counter.Count] of a text held in bytes, which are not kept.
func (c *Counter) CountTokens(ctx context.Context, tokenizer string, text []byte) (int, error) {
	return c.Count(ctx, tokenizer, string(text))
}
