package scriptedmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agenthost/agenthost/host"
)

// DefaultName is the model's name without [Options].Name.
const DefaultName = "scripted"

// Fingerprint is the system_fingerprint of every answer.
const Fingerprint = "scripted-not-an-llm"

// Notice names the source of an answer beside it, and says how to connect a
// model.
const Notice = `This answer is scripted, not an LLM's: it matches words and repeats what tools return. To connect a real model:
  export OPENAI_API_KEY=sk-...    (or OPENAI_BASE_URL=http://localhost:11434/v1 for Ollama, vLLM, LM Studio)
  and run the same command with --model NAME`

// The bounds of a request.
const (
	maxRequestBytes = 16 << 20
	maxMessages     = 20_000
	maxTools        = 1_000
)

// Options are the optional parts of a scripted model.
type Options struct {
	// Rules are tried in order; the first that matches answers.
	Rules []Rule

	// Otherwise answers a request that no rule matches; nil is no answer. Default: no
	// answer, which is HTTP status 400 with the code no_rule. It is called from many
	// goroutines, and must give the same conversation the same answer.
	Otherwise func(*Conversation) *Reply

	// Name is the model's name for itself. Default: [DefaultName]. Requests may
	// name any model; the answer carries Name.
	Name string
}

// Handler serves POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models. It keeps nothing
// between requests and is safe for concurrent use.
type Handler struct {
	name      string
	rules     []compiledRule
	otherwise func(*Conversation) *Reply
	mux       *http.ServeMux
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler. Code invalid_argument for a rule that cannot work; the
// error names the rule.
func New(opts *Options) (*Handler, error) {
	if opts == nil {
		opts = &Options{}
	}
	h := &Handler{name: opts.Name, otherwise: opts.Otherwise, mux: http.NewServeMux()}
	if h.name == "" {
		h.name = DefaultName
	}
	var err error
	if h.rules, err = compileRules(opts.Rules); err != nil {
		return nil, err
	}
	h.mux.HandleFunc("POST /v1/chat/completions", h.serveCompletion)
	h.mux.HandleFunc("GET /v1/models", h.serveModels)
	h.mux.HandleFunc("POST /v1/embeddings", h.serveEmbeddings)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s %s; there are POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models", r.Method, r.URL.Path))
	})
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

func (h *Handler) serveModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": h.name, "object": "model", "created": 0, "owned_by": Fingerprint},
	}})
}

func (h *Handler) serveCompletion(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("read request: it has more than %d bytes", maxRequestBytes))
		return
	case err != nil:
		writeError(w, http.StatusBadRequest, "invalid_request_error", "read request: it broke off")
		return
	}
	req, err := readRequest(raw)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	rep := h.answer(req)
	if !pause(r, time.Duration(rep.Delay)) {
		return
	}
	newWriter(w, r, h.name, raw, req).write(rep)
}

// answer chooses the reply.
func (h *Handler) answer(req *request) *Reply {
	c := newConversation(req)
	for i := range h.rules {
		if rep := h.rules[i].reply(c); rep != nil {
			return rep
		}
	}
	if h.otherwise != nil {
		if rep := h.otherwise(c); rep != nil {
			return rep
		}
	}
	return &Reply{Error: &ReplyError{
		Status: http.StatusBadRequest, Code: "no_rule",
		Message: "no rule of the script matches the request; add one, or one without a match as the last",
	}}
}

// pause waits and reports whether the client is still there.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return r.Context().Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, errorBody(code, message))
}

func errorBody(code, message string) map[string]any {
	return map[string]any{"error": map[string]any{"message": message, "type": code, "param": nil, "code": code}}
}

func invalid(format string, args ...any) *host.Error {
	return host.Errorf(host.InvalidArgument, format, args...)
}
