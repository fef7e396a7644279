package geminimodel

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// DefaultBaseURL is where requests go without [Options].BaseURL.
const DefaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"

// protocol is the common part of all servers of this kind.
func protocol() modelhttp.Protocol {
	return modelhttp.Protocol{
		BaseURL: DefaultBaseURL, OtherURL: "http://localhost:8080/v1beta", KeyVariable: "GEMINI_API_KEY",
		KeyHeader: "X-Goog-Api-Key",
		BaseHint:  "a server of the Gemini API; it usually ends in /v1beta", ModelsPath: "/models",
		Answer: "an answer of generateContent",
	}
}

// Options are the optional parts of a model.
type Options struct {
	Server modelhttp.Options // how to reach the server

	// ThinkingTokens bounds the model's thinking: 0 leaves it to the service,
	// [ThinkAsNeeded] lets the model decide, [DoNotThink] forbids it, which some
	// models refuse.
	ThinkingTokens int

	// Effort is how hard the model should think, in the service's words: such as
	// low or high. "" leaves it to the service. It is for models of generation 3 and
	// later, ThinkingTokens for those before; a request has one of the two.
	Effort string

	// Thoughts asks the service for a summary of the model's thoughts.
	Thoughts bool
}

// The values of [Options].ThinkingTokens that are no number of tokens.
const (
	ThinkAsNeeded = -1
	DoNotThink    = -2
)

// Model is one model of one server. It is safe for concurrent use.
type Model struct {
	name    string
	opts    Options
	server  *modelhttp.Server
	headers http.Header
	path    string // of the model, without a method
	host    string // of the server

	generation int // of the model, by its name; 0 if that does not say

	missesSignatures atomic.Bool // the server has refused calls without one
}

var _ llm.Model = (*Model)(nil)

// New returns a model; nothing is sent yet. The name may begin with "models/".
// Code invalid_argument for a name that no address can have or options that cannot
// work.
func New(model string, opts *Options) (*Model, error) {
	if opts == nil {
		opts = &Options{}
	}
	server, err := modelhttp.New(model, protocol(), opts.Server)
	if err != nil {
		return nil, err
	}
	path, err := pathOf(model)
	if err != nil {
		return nil, err
	}
	switch {
	case opts.ThinkingTokens < DoNotThink:
		return nil, fault.Errorf(fault.InvalidArgument, "thinking tokens of model %q are %d", model, opts.ThinkingTokens).
			WithHint("leave them out for the service's default")
	case opts.ThinkingTokens != 0 && opts.Effort != "":
		return nil, fault.Errorf(fault.InvalidArgument, "model %q has both an effort and a number of thinking tokens", model).
			WithHint("models of generation 3 and later take the effort, those before the number")
	}
	m := &Model{name: model, opts: *opts, server: server, path: path, headers: server.Header(), generation: generationOf(model)}
	if u, err := url.Parse(server.BaseURL()); err == nil {
		m.host = u.Hostname()
	}
	return m, nil
}

// kinds are the prefixes of the service's names of models.
var kinds = []string{"models/", "tunedModels/"}

// The methods of a model: the path of a request ends in one of them.
const (
	streamMethod = ":streamGenerateContent?alt=sse"
	wholeMethod  = ":generateContent"
)

// pathOf returns the path of a model.
func pathOf(model string) (string, error) {
	kind, name := kinds[0], model
	for _, k := range kinds {
		if rest, ok := strings.CutPrefix(model, k); ok {
			kind, name = k, rest
		}
	}
	strange := strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if strange || strings.Trim(name, ".") == "" {
		return "", fault.Errorf(fault.InvalidArgument, "name of model %q has characters that no model's has", model).
			WithHint("it looks like gemini-2.5-flash")
	}
	return "/" + kind + name, nil
}

// generationOf returns the number in a name such as gemini-3-pro.
func generationOf(model string) (n int) {
	_, after, _ := strings.Cut(model, "gemini-")
	for _, r := range after {
		if r < '0' || r > '9' || n > 99 {
			break
		}
		n = 10*n + int(r-'0')
	}
	return n
}

// Name returns the model's name as given to [New].
func (m *Model) Name() string { return m.name }

// Provider implements [llm.Provided]: whose protocol the model's server speaks.
func (m *Model) Provider() string { return "gcp.gemini" }

// CloseIdleConnections closes the connections that no request is using. The
// model can be used again.
func (m *Model) CloseIdleConnections() { m.server.CloseIdleConnections() }

// Generate streams the answer, or asks for it in one piece where the request and
// [modelhttp.Options].Whole allow that. See llm.Model for the contract and the package
// documentation for the form of a conversation. The codes of its errors are
// those of [modelhttp.Server.Ask].
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if req.Conversation != "" {
			yield(llm.Chunk{}, modelhttp.NoConversations(m.name))
			return
		}
		q := &question{model: m, req: req, form: wireForm{host: m.host}}
		if m.missesSignatures.Load() {
			q.form.signing = signAll
		}
		if err := q.write(); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.server.Ask(ctx, yield, q.try)
	}
}

// question is one request, which attempts may change.
type question struct {
	model   *Model
	req     *llm.Request
	body    modelhttp.Body
	form    wireForm
	inWords *llm.OutputSpec // whose schema stands in the instruction
}

// try sends the request once. A part that the server refuses is changed for the
// next attempt, which follows at once.
func (q *question) try(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	f := q.answer(c, x)
	switch {
	case f == nil:
	case q.form.signing < signNone && f.Says(aboutSignatures...):
		q.form.signing = q.resigned(f)
		f.AtOnce = q.write() == nil
	case q.req.Output != nil && q.inWords == nil && f.Says(aboutFormats...):
		q.inWords = q.req.Output // the caller checks the answer anyway
		f.AtOnce = q.write() == nil
	case !q.form.noMedia && f.AboutMedia() && modelhttp.HasToolMedia(q.req):
		q.form.noMedia = true
		f.AtOnce = q.write() == nil
	}
	return f
}

// The service's words about signatures and the format of an answer.
var (
	aboutSignatures = []string{"thought_signature", "thought signature", "thoughtsignature"}
	aboutFormats    = []string{"response mime type", "response_mime_type", "responsemimetype", "response_json_schema", "responsejsonschema", "response schema", "response_schema"}
)

// resigned returns the next way to sign calls: with the mark where a signature is
// missing, then without signatures.
func (q *question) resigned(f *modelhttp.Fault) signing {
	if q.form.signing == signOwn && f.Says("missing") {
		q.model.missesSignatures.Store(true)
		return signAll
	}
	return signNone
}

// answer sends the request and passes the answer on.
func (q *question) answer(c *modelhttp.Call, x *modelhttp.Exchange) *modelhttp.Fault {
	m, method := q.model, streamMethod
	if m.server.AnswersWhole(q.req) {
		method = wholeMethod
		x.ExpectWhole()
	}
	var got answer
	f := x.Relay(c, m.path+method, q.body, m.headers, &got)
	if f != nil && f.Again && got.finish == missingSignature && q.form.signing == signOwn {
		m.missesSignatures.Store(true)
		q.form.signing = signAll
		f.Again = q.write() == nil
	}
	return f
}
