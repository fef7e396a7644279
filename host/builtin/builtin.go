package builtin

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/pdk/go/pdk"
	"github.com/agenthost/agenthost/plugins/summarizer"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
	"github.com/agenthost/agenthost/plugins/toolcallfilter"
)

// ToolCallFilterOptions are the configuration of a filter of tool calls. The zero
// value removes every call and its results.
type ToolCallFilterOptions struct {
	Exclude        []string // remove the calls of these tools alone; an empty list removes nothing
	Include        []string // keep the calls of these tools alone; not with Exclude
	PersistResults bool     // leave a message that says which tools were used

	// FilterOwnRounds removes also the agent's own calls since its router picked it. The
	// agent then calls those tools again, as often as its limits allow.
	FilterOwnRounds bool

	Sandbox *plugin.Runtime // run as a plugin there; nil is natively
}

// NewToolCallFilter returns the processor that removes tool calls and their results
// from the messages sent to a model. opts may be nil. Code invalid_argument for Include with
// Exclude and for a tool without a name.
func NewToolCallFilter(opts *ToolCallFilterOptions) (host.Processor, error) {
	if opts == nil {
		opts = &ToolCallFilterOptions{}
	}
	config := struct {
		Exclude        []string `json:"exclude,omitzero"`
		Include        []string `json:"include,omitzero"`
		PersistResults bool     `json:"persistResults,omitempty"`
		OwnRounds      string   `json:"own_rounds,omitempty"`
	}{opts.Exclude, opts.Include, opts.PersistResults, ""}
	if opts.FilterOwnRounds {
		config.OwnRounds = "filter"
	}
	return configured(toolcallfilter.Name, config, &Options{Sandbox: opts.Sandbox})
}

// TokenLimiterOptions are the optional configuration of a limiter of tokens.
type TokenLimiterOptions struct {
	Encoding string // in which to count: o200k_base (default), cl100k_base, p50k_base, r50k_base, gpt2, or model for the model's
	Estimate bool   // by the length of messages, instead of counting
	Reserve  int    // how many tokens of the limit to leave free

	// Tokenizer is a tokenizer of the host to count with instead of Encoding. Tokens must
	// know it.
	Tokenizer string

	// Tokens is the host's counter (Options.Tokens of [host.New]), which is asked
	// whether it knows Tokenizer. The processor counts with that of the host that it
	// runs in.
	Tokens host.TokenCounter

	// EmptyIfTooLarge leaves only the system messages if not even the newest messages
	// fit. Otherwise that is an error.
	EmptyIfTooLarge bool

	Sandbox *plugin.Runtime // run as a plugin there; nil is natively
}

// NewTokenLimiter returns the processor that drops the oldest messages sent to a model
// until the rest has at most limit tokens. opts may be nil. Code invalid_argument for a
// limit below 1, a reserve of the whole limit or more, and an unknown encoding or
// tokenizer.
func NewTokenLimiter(limit int, opts *TokenLimiterOptions) (host.Processor, error) {
	if opts == nil {
		opts = &TokenLimiterOptions{}
	}
	config := struct {
		Limit       int    `json:"limit"`
		Encoding    string `json:"encoding,omitempty"`
		UseTiktoken *bool  `json:"useTiktoken,omitempty"`
		Tokenizer   string `json:"tokenizer,omitempty"`
		Reserve     int    `json:"reserve,omitempty"`
		Oversize    string `json:"oversize,omitempty"`
	}{Limit: limit, Encoding: opts.Encoding, Tokenizer: opts.Tokenizer, Reserve: opts.Reserve}
	if opts.Estimate {
		config.UseTiktoken = new(bool)
	}
	if opts.EmptyIfTooLarge {
		config.Oversize = "empty"
	}
	return configured(tokenlimiter.Name, config, &Options{Sandbox: opts.Sandbox, Tokens: opts.Tokens})
}

// SummarizerOptions are the optional configuration of a summarizer.
type SummarizerOptions struct {
	Threshold int    // how many messages beyond the target are left alone; 0 is 10, -1 none
	Prompt    string // asks for the summary
	Model     string // a model of the runtime's, by name; default: the agent's
	MaxTokens int    // of a summary; default 500
}

// NewSummarizer returns the processor that puts a model's summary in the place of all
// but the newest target messages before a turn. It runs as a plugin in sandbox, which
// provides the models for summaries ([plugin.Options].Models) and the store for keeping
// them; the plugin is granted both. opts may be nil. Code invalid_argument for a
// target below 1 and no sandbox.
func NewSummarizer(sandbox *plugin.Runtime, target int, opts *SummarizerOptions) (host.Processor, error) {
	if opts == nil {
		opts = &SummarizerOptions{}
	}
	config := struct {
		Target    int    `json:"target"`
		Threshold *int   `json:"threshold,omitempty"`
		Prompt    string `json:"prompt,omitempty"`
		Model     string `json:"model,omitempty"`
		MaxTokens int    `json:"maxTokens,omitempty"`
	}{Target: target, Prompt: opts.Prompt, Model: opts.Model, MaxTokens: opts.MaxTokens}
	switch {
	case opts.Threshold == -1:
		config.Threshold = new(int)
	case opts.Threshold != 0:
		config.Threshold = &opts.Threshold
	}
	return configured(summarizer.Name, config, &Options{Sandbox: sandbox})
}

// Must returns a processor that was made without an error, and panics with the error
// otherwise: for configurations written in the program itself.
func Must(p host.Processor, err error) host.Processor {
	if err != nil {
		panic("builtin: " + err.Error())
	}
	return p
}

// Options configure how a processor of [New] runs.
type Options struct {
	Sandbox *plugin.Runtime   // run as a plugin there; nil is natively
	Tokens  host.TokenCounter // see [TokenLimiterOptions]
}

// New returns a shipped processor by its name (toolcallfilter, tokenlimiter,
// summarizer) and its configuration as JSON, as agenthost.yaml has it. opts may be
// nil. Errors are those of [Check], and of [plugin.Runtime.Load] with a sandbox, in
// which the processor is loaded once, under the id "builtin:" and its name.
func New(name string, config json.RawMessage, opts *Options) (host.Processor, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := Check(name, config, opts.Tokens); err != nil {
		return nil, err
	}
	switch {
	case opts.Sandbox != nil:
		return sandboxed(opts.Sandbox, name, config)
	case name == summarizer.Name:
		return nil, host.Errorf(host.InvalidArgument, "the processor %s runs in a sandbox alone", name).
			WithHint("give it one, or use reduce.Summarizing or reduce.NewProgressive of package host/reduce")
	}
	return native(name, pdk.Raw(orEmpty(config)))
}

func configured(name string, config any, opts *Options) (host.Processor, error) {
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "config of %s: %w", name, err)
	}
	return New(name, raw, opts)
}

// Names returns the names of the shipped processors.
func Names() []string {
	return []string{summarizer.Name, tokenlimiter.Name, toolcallfilter.Name}
}

// Check returns the first fault of a processor's configuration, or nil.
// tokens is the host's counter: a tokenizer that it does not know is refused; without a
// counter every tokenizer is. Codes are not_found for a processor that is not one of
// [Names], and invalid_argument.
func Check(name string, config json.RawMessage, tokens host.TokenCounter) error {
	raw := pdk.Raw(orEmpty(config))
	var err error
	switch name {
	case toolcallfilter.Name:
		_, err = toolcallfilter.New(raw)
	case tokenlimiter.Name:
		if _, err = tokenlimiter.New(raw); err == nil {
			return checkTokenizer(config, tokens)
		}
	case summarizer.Name:
		err = summarizer.Check(raw)
	default:
		return host.Errorf(host.NotFound, "there is no shipped processor %.60q", name).WithHint("there are: %s", strings.Join(Names(), ", "))
	}
	if err != nil {
		return hostError(err)
	}
	return nil
}

// named is a counter that lists its tokenizers.
type named interface{ Names() []string }

// checkTokenizer looks up the tokenizer of a limiter's configuration. A counter that
// does not list its tokenizers is not asked: a tokenizer may be a service that is down
// now.
func checkTokenizer(config json.RawMessage, tokens host.TokenCounter) error {
	var c struct{ Tokenizer string }
	if err := json.Unmarshal(config, &c); err != nil || c.Tokenizer == "" { // a number is a limit alone
		return nil
	}
	known, lists := tokens.(named)
	switch {
	case tokens == nil:
		return host.Errorf(host.InvalidArgument, "config of %s: tokenizer is %q, and there is no token counter that could know it", tokenlimiter.Name, c.Tokenizer).
			WithHint("give the host's: Options.Tokens, where it is made")
	case lists && !slices.Contains(known.Names(), c.Tokenizer):
		return host.Errorf(host.InvalidArgument, "config of %s: tokenizer is %q, which is not known; known are %s", tokenlimiter.Name, c.Tokenizer, strings.Join(known.Names(), ", ")).
			WithHint("register it with the host's token counter (tokens.Options.Tokenizers), or name an encoding")
	}
	return nil
}

func orEmpty(config json.RawMessage) json.RawMessage {
	if len(config) == 0 {
		return json.RawMessage("{}")
	}
	return config
}
