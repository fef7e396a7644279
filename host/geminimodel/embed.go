package geminimodel

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// EmbedderOptions are the optional parts of an embedder.
type EmbedderOptions struct {
	Server modelhttp.Options // how to reach the server; KeepRaw and Whole have no meaning here

	// Dimensions is the length of the vectors. 0 is the model's own.
	Dimensions int
}

// Embedder is one model of embeddings of one server. It is safe for concurrent use.
type Embedder struct {
	name       string
	path       string // of the model, without a method
	dimensions int
	server     *modelhttp.Server
	headers    http.Header

	noTasks atomic.Bool // the model takes no task types
}

var _ llm.Embedder = (*Embedder)(nil)

// NewEmbedder returns an embedder; nothing is sent yet. The name may begin with "models/".
// Code invalid_argument for a name that no address can have or options that cannot work.
func NewEmbedder(model string, opts *EmbedderOptions) (*Embedder, error) {
	if opts == nil {
		opts = &EmbedderOptions{}
	}
	protocol := protocol()
	protocol.Answer = "an answer of batchEmbedContents"
	server, err := modelhttp.New(model, protocol, opts.Server)
	if err != nil {
		return nil, err
	}
	path, err := pathOf(model)
	if err != nil {
		return nil, err
	}
	if opts.Dimensions < 0 || opts.Dimensions > llm.MaxDimensions {
		return nil, fault.Errorf(fault.InvalidArgument, "dimensions of model %q are %d, more than %d or fewer than none", model, opts.Dimensions, llm.MaxDimensions).
			WithHint("leave them out for the model's own")
	}
	return &Embedder{name: model, path: path, dimensions: opts.Dimensions, server: server, headers: server.Header()}, nil
}

// Name returns the model's name as given to [NewEmbedder].
func (e *Embedder) Name() string { return e.name }

// Provider returns whose protocol the embedder's server speaks: see [llm.Provided].
func (e *Embedder) Provider() string { return "gcp.gemini" }

// CloseIdleConnections closes the connections that no request is using. The
// embedder can be used again.
func (e *Embedder) CloseIdleConnections() { e.server.CloseIdleConnections() }

const embedMethod = ":batchEmbedContents"

type wireEmbed struct {
	Model      string      `json:"model"`
	Content    wireContent `json:"content"`
	TaskType   string      `json:"taskType,omitempty"`
	Dimensions int         `json:"outputDimensionality,omitempty"`
}

type wireContent struct {
	Parts []wireText `json:"parts"`
}

type wireText struct {
	Text string `json:"text"`
}

// Embed implements [llm.Embedder]. The service reports no usage, which is estimated. The
// codes of its errors are those of [modelhttp.Server.Ask].
func (e *Embedder) Embed(ctx context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	document, err := e.ask(ctx, req)
	if f := fault.AsError(err); err != nil && f.Code == fault.InvalidArgument && !e.noTasks.Load() && strings.Contains(strings.ToLower(f.Message), "task") {
		e.noTasks.Store(true)
		document, err = e.ask(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	var got struct {
		Embeddings json.RawMessage `json:"embeddings"`
	}
	var list []struct {
		Values json.RawMessage `json:"values"`
	}
	if err := e.server.Decode(document, &got); err != nil {
		return nil, err
	}
	if err := e.server.DecodeList(got.Embeddings, len(req.Texts), &list); err != nil {
		return nil, err
	}
	out := &llm.Embeddings{Model: e.name, Vectors: make([][]float32, len(list))}
	for i, v := range list {
		if err := e.server.DecodeList(v.Values, llm.MaxDimensions, &out.Vectors[i]); err != nil {
			return nil, err
		}
	}
	return out, out.Check(req)
}

func (e *Embedder) ask(ctx context.Context, req *llm.EmbedRequest) ([]byte, error) {
	task := "RETRIEVAL_DOCUMENT"
	switch {
	case e.noTasks.Load():
		task = ""
	case req.Query:
		task = "RETRIEVAL_QUERY"
	}
	requests := make([]wireEmbed, len(req.Texts))
	for i, text := range req.Texts {
		requests[i] = wireEmbed{Model: strings.TrimPrefix(e.path, "/"), Content: wireContent{[]wireText{{text}}}, TaskType: task, Dimensions: e.dimensions}
	}
	body, err := json.Marshal(map[string]any{"requests": requests})
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "write request to model %q: %w", e.name, err)
	}
	return e.server.AskDocument(ctx, e.path+embedMethod, body, e.headers)
}
