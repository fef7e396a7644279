package host

import (
	"encoding/json"

	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/runevent"
)

// requestContent is the content of a request beside the user's message. A run that
// resumes another has the content of that run's request.
type requestContent struct {
	messages     []*Message                 // the client's conversation
	providers    map[string]json.RawMessage // the client's states of context providers
	artifacts    []Artifact
	instructions string
	parameters   map[string]json.RawMessage // for models, encoded
	client       clientTerms
}

// contentOf returns the content of a request to run n. Code invalid_argument for model
// parameters that cannot be sent, and for terms of a client that do not fit.
func contentOf(n *Network, req *Request) (requestContent, error) {
	parameters, err := llm.EncodeParameters(req.ModelParameters)
	if err != nil {
		return requestContent{}, wrapError(err, "request")
	}
	client, err := compileClientTerms(n, req.Client)
	return requestContent{messages: req.Messages, providers: req.Providers, artifacts: req.Artifacts,
		instructions: req.Instructions, parameters: parameters, client: client}, err
}

// resumption names the run that a request resumes, and has its answers or
// checkpoint.
type resumption struct {
	run        string // empty if the run begins
	answers    []Answer
	checkpoint *runevent.Checkpoint // nil if the journal has the run
}

// resumptionOf returns the resumption of a request: of the run that it names, or
// that of the checkpoint that it or its agent thread brings.
func resumptionOf(req *Request) (resumption, error) {
	c := req.Checkpoint
	if c == nil && req.AgentThread != nil {
		if kept := req.AgentThread.Access().CheckpointOf(req.Resume, len(req.Answers)); kept != nil {
			c = runevent.NewCheckpoint(*kept)
		}
	}
	if c == nil {
		return resumption{run: req.Resume, answers: req.Answers}, nil
	}
	if c.Kept().Left == nil {
		return resumption{}, Errorf(InvalidArgument, "request brings an empty checkpoint")
	}
	if req.Resume != "" && req.Resume != c.Kept().Run {
		return resumption{}, Errorf(InvalidArgument, "request resumes run %q with the checkpoint of run %q", req.Resume, c.Kept().Run)
	}
	return resumption{run: c.Kept().Run, answers: req.Answers, checkpoint: c}, nil
}

// fromClient reports whether the run resumes from a checkpoint that a client had.
func (p *resumption) fromClient() bool { return p.checkpoint != nil && p.checkpoint.Kept().Unowned }
