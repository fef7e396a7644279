package openaimodel

import (
	"context"
	"encoding/json"
	"net/http"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// EmbedderOptions are the optional parts of an embedder.
type EmbedderOptions struct {
	Server modelhttp.Options // how to reach the server; KeepRaw and Whole have no meaning here

	// Dimensions is the length of the vectors, for models that have several. 0 is the
	// model's own.
	Dimensions int
}

// Embedder is one model of embeddings of one server. It is safe for concurrent use.
type Embedder struct {
	name       string
	dimensions int
	server     *modelhttp.Server
	headers    http.Header
}

var _ llm.Embedder = (*Embedder)(nil)

// NewEmbedder returns an embedder; nothing is sent yet. The name goes to the server
// unchanged. Code invalid_argument for a missing name or options that cannot work.
func NewEmbedder(model string, opts *EmbedderOptions) (*Embedder, error) {
	if opts == nil {
		opts = &EmbedderOptions{}
	}
	protocol := protocol
	protocol.Answer = "a list of embeddings"
	server, err := modelhttp.New(model, protocol, opts.Server)
	if err != nil {
		return nil, err
	}
	if opts.Dimensions < 0 || opts.Dimensions > llm.MaxDimensions {
		return nil, fault.Errorf(fault.InvalidArgument, "dimensions of model %q are %d, more than %d or fewer than none", model, opts.Dimensions, llm.MaxDimensions).
			WithHint("leave them out for the model's own")
	}
	return &Embedder{name: model, dimensions: opts.Dimensions, server: server, headers: server.Header()}, nil
}

// Name returns the model's name as given to [NewEmbedder].
func (e *Embedder) Name() string { return e.name }

// Provider returns whose protocol the embedder's server speaks: see [llm.Provided].
func (e *Embedder) Provider() string { return "openai" }

// CloseIdleConnections closes the connections that no request is using. The
// embedder can be used again.
func (e *Embedder) CloseIdleConnections() { e.server.CloseIdleConnections() }

const embeddingsPath = "/embeddings"

// Embed implements [llm.Embedder]. The codes of its errors are those of
// [modelhttp.Server.Ask].
func (e *Embedder) Embed(ctx context.Context, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(openai.EmbeddingRequest{Input: req.Texts, Model: openai.EmbeddingModel(e.name), EncodingFormat: openai.EmbeddingEncodingFormatFloat, Dimensions: e.dimensions})
	if err != nil {
		return nil, fault.Errorf(fault.InvalidArgument, "write request to model %q: %w", e.name, err)
	}
	document, err := e.server.AskDocument(ctx, embeddingsPath, body, e.headers)
	if err != nil {
		return nil, err
	}
	return e.read(document, req)
}

// read reads the answer. Its lists are bounded before they are decoded.
func (e *Embedder) read(document []byte, req *llm.EmbedRequest) (*llm.Embeddings, error) {
	var got struct {
		Data  json.RawMessage `json:"data"`
		Usage openai.Usage    `json:"usage"`
	}
	var list []struct {
		Index     int             `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	}
	if err := e.server.Decode(document, &got); err != nil {
		return nil, err
	}
	if err := e.server.DecodeList(got.Data, len(req.Texts), &list); err != nil {
		return nil, err
	}
	out := &llm.Embeddings{Model: e.name, Vectors: make([][]float32, len(req.Texts)), Usage: chat.Usage{InputTokens: max(got.Usage.PromptTokens, 0)}}
	for _, d := range list {
		if d.Index < 0 || d.Index >= len(out.Vectors) || out.Vectors[d.Index] != nil {
			return nil, e.server.Refused("numbers its embeddings badly").Err
		}
		if err := e.server.DecodeList(d.Embedding, llm.MaxDimensions, &out.Vectors[d.Index]); err != nil {
			return nil, err
		}
	}
	return out, out.Check(req)
}
