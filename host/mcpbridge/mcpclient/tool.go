package mcpclient

//lint:file-ignore SA1019 servers of versions before 2026-07-28 ask for samples

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
)

const (
	maxRounds     = 8  // in which a server asks for more in one call
	maxProgress   = 16 // reports that wait for a slow reader; later ones are dropped
	maxReportText = 1 << 10
)

// tool returns the tool of a definition, made once. finder names the tool that finds it, if
// it is not offered at once.
func (l *link) tool(ctx context.Context, d *Definition, finder string) (*host.Tool, error) {
	digest := d.Digest() + finder
	l.mu.Lock()
	made := l.tools[digest]
	l.mu.Unlock()
	if made != nil {
		return made, nil
	}
	schema, _, err := repairSchema(d.Schema)
	if err != nil {
		return nil, err
	}
	compiled, err := host.CompileSchemaContext(ctx, schema)
	if err != nil {
		return nil, err
	}
	opts := &host.ToolOptions{Timeout: l.server.Timeout, Schema: compiled, FoundBy: finder}
	if l.server.Hints {
		opts.ReadOnly, opts.Idempotent = d.ReadOnly, d.ReadOnly || d.Idempotent
	}
	own := *d
	spec := llm.ToolSpec{Name: l.server.toolName(d.Name), Description: d.Description, Parameters: schema}
	made, err = host.NewRawTool(spec, func(ctx context.Context, call *host.Call) (*host.ToolOutput, error) {
		return l.callTool(ctx, &own, call)
	}, opts)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tools[digest] = made
	return made, nil
}

// callTool calls a tool whose definition is the accepted one.
func (l *link) callTool(ctx context.Context, d *Definition, call *host.Call) (*host.ToolOutput, error) {
	for again := false; ; again = true {
		s, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		out, err := s.callTool(ctx, d, call)
		l.release(s)
		if errors.Is(err, mcp.ErrSessionMissing) && !again { // the server has forgotten the session, and not run the call
			l.drop(s)
			continue
		}
		return out, err
	}
}

// callTool calls a tool in the session.
func (s *session) callTool(ctx context.Context, d *Definition, call *host.Call) (*host.ToolOutput, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	if err := s.checkDefinition(d); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	asks := &callAsks{ctx: ctx, server: s.link.server, limits: &s.link.servers.limits, call: call, stop: stop, program: s.link.servers.answer}
	end, err := s.asks.begin(ctx, asks)
	if err != nil {
		return nil, err
	}
	defer end()
	result, err := s.converse(ctx, d, call, asks)
	if ask := asks.pending(); ask != nil {
		return &host.ToolOutput{Interrupt: ask, Usage: asks.used()}, nil
	}
	if err != nil {
		return &host.ToolOutput{Usage: asks.used()}, s.callError(ctx, err)
	}
	out, err := outputOf(call, s.link.server, result)
	if out == nil {
		out = &host.ToolOutput{}
	}
	out.Usage = asks.used()
	return out, err
}

// checkDefinition refuses a call of a tool that the server has not, or describes in other
// words than were accepted.
func (s *session) checkDefinition(d *Definition) error {
	s.mu.Lock()
	now, listed := s.defs[d.Name]
	s.mu.Unlock()
	name := s.link.server.toolName(d.Name)
	if !listed {
		return fault.Errorf(fault.NotFound, "The MCP server %s has no tool %s any more.", s.link.server.Name, name)
	}
	if now.Digest() != d.Digest() {
		return fault.Errorf(fault.FailedPrecondition, "The definition of the tool %s has changed, and is held back until it is accepted.", name)
	}
	return nil
}

// converse calls the tool, and again with answers while the server asks for more.
func (s *session) converse(ctx context.Context, d *Definition, call *host.Call, asks *callAsks) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: d.Name, Arguments: call.Arguments}
	for range maxRounds {
		result, err := s.callOnce(ctx, params, call)
		if err != nil || !result.NeedsInput() {
			return result, err
		}
		answers, err := s.answers(result.InputRequests, asks)
		if err != nil || asks.pending() != nil {
			return nil, err
		}
		params = &mcp.CallToolParams{Name: d.Name, Arguments: call.Arguments, InputResponses: answers, RequestState: result.RequestState}
	}
	return nil, fault.Errorf(fault.ResourceExhausted, "The MCP server %s asks for more than %d times in one call.", s.link.server.Name, maxRounds)
}

// answers answers the requests in a result, in the order of their names.
func (s *session) answers(requests mcp.InputRequestMap, asks *callAsks) (mcp.InputResponseMap, error) {
	out := mcp.InputResponseMap{}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		var err error
		switch p := requests[id].(type) {
		case *mcp.ElicitParams:
			if !s.asks.elicitation {
				return nil, s.errNotAllowed("ask questions of persons")
			}
			answer, failed := asks.answer(p)
			if err = failed; answer != nil {
				out[id] = answer
			}
		case *mcp.CreateMessageWithToolsParams:
			if !s.asks.sampling {
				return nil, s.errNotAllowed("ask the model")
			}
			var plain *mcp.CreateMessageParams
			if plain, err = withoutTools(p); err == nil {
				out[id], err = asks.sample(plain)
			}
		default:
			return nil, s.errNotAllowed("ask for that")
		}
		if err != nil || asks.pending() != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *session) errNotAllowed(what string) error {
	return fault.Errorf(fault.PermissionDenied, "The MCP server %s may not %s.", s.link.server.Name, what)
}

// callOnce sends one request, and passes the server's reports on while it waits. It does not
// wait for a server that holds the request up.
func (s *session) callOnce(ctx context.Context, params *mcp.CallToolParams, call *host.Call) (*mcp.CallToolResult, error) {
	begun := time.Now()
	reports := make(chan *mcp.ProgressNotificationParams, maxProgress)
	token := host.NewID()
	defer s.watchProgress(token, func(p *mcp.ProgressNotificationParams) {
		select {
		case reports <- p:
		default:
		}
	})()
	params.SetProgressToken(token)
	done := make(chan callAnswer, 1)
	go func() { // ends with ctx, or with the session
		var a callAnswer
		a.err = guarded(func() (err error) {
			a.result, err = s.cs.CallTool(ctx, params)
			return err
		})
		done <- a
	}()
	a := awaitAnswer(ctx, done, reports, func(p *mcp.ProgressNotificationParams) {
		_ = call.Progress(host.Progress{Message: plainLine(p.Message, maxReportText), Done: p.Progress, Total: p.Total}) // a limit of events drops it
	})
	if a.left && fault.CodeOf(a.err) == fault.DeadlineExceeded && s.reading.isQuietSince(begun) {
		s.broken.Store(true) // the next call gets another session
	}
	return a.result, a.err
}

// callAnswer is what came of one request.
type callAnswer struct {
	result *mcp.CallToolResult
	err    error
	left   bool // the context has ended first
}

// awaitAnswer passes reports on until the answer is there, those as well that came before it.
func awaitAnswer(ctx context.Context, done <-chan callAnswer, reports <-chan *mcp.ProgressNotificationParams, pass func(*mcp.ProgressNotificationParams)) callAnswer {
	for {
		select {
		case a := <-done:
			for range len(reports) {
				pass(<-reports)
			}
			return a
		case p := <-reports:
			pass(p)
		case <-ctx.Done():
			return callAnswer{err: fault.ContextError(ctx), left: true}
		}
	}
}

// callError returns the error of a call as a sentence for the model. The server's own words
// are in it if it answered; the rest is for the host's log.
func (s *session) callError(ctx context.Context, err error) error {
	var own *fault.Error
	var answered *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
		return fault.ContextError(ctx)
	case errors.As(err, &own):
		return own
	case errors.Is(err, mcp.ErrSessionMissing):
		return err
	case s.flood.passed.Load():
		return s.errFlood()
	case errors.As(err, &answered):
		return fault.Errorf(fault.FailedPrecondition, "The MCP server %s refuses the call: %s", s.link.server.Name, plainLine(answered.Message, maxErrorText))
	}
	if s.proc != nil || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) {
		s.broken.Store(true) // the next call gets another session
	}
	e := fault.Errorf(fault.Unavailable, "The MCP server %s did not answer.", s.link.server.Name)
	e.Err = textOf(s.explain(ctx, err))
	return e
}

// The bounds of a result.
const (
	maxErrorText = 2 << 10
	maxParts     = 256
)

// outputOf turns a result into a tool's output: structured content alone where there is
// some, otherwise the texts. Media become artifacts, whose names stand in the text; the model is
// shown the images and sounds that the result has room for.
func outputOf(call *host.Call, server *Server, result *mcp.CallToolResult) (*host.ToolOutput, error) {
	texts, media, err := readContent(call, server, result.Content)
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, fault.Errorf(fault.FailedPrecondition, "The tool answers: %s", plainLine(strings.Join(texts, "\n"), maxErrorText))
	}
	var content any = strings.Join(texts, "\n")
	if result.StructuredContent != nil {
		content = result.StructuredContent
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "The result of the tool is not JSON.")
	}
	return &host.ToolOutput{Content: raw, Media: shown(media, call.ResultBytes()-len(raw))}, nil
}

// shown returns the images and sounds that fit into room bytes, in their order.
func shown(media []*chat.Media, room int) []*chat.Media {
	var out []*chat.Media
	for _, m := range media {
		if !strings.HasPrefix(m.MediaType, "image/") && !strings.HasPrefix(m.MediaType, "audio/") {
			continue
		}
		if n, err := chat.MediaBytes([]*chat.Media{m}); err == nil && n <= room {
			out, room = append(out, m), room-n
		}
	}
	return out
}

// readContent returns the texts of a result and its images and sounds, and adds artifacts for
// its media.
func readContent(call *host.Call, server *Server, parts []mcp.Content) (texts []string, media []*chat.Media, err error) {
	if len(parts) > maxParts {
		return nil, nil, fault.Errorf(fault.ResourceExhausted, "The result has %d parts, more than %d.", len(parts), maxParts)
	}
	addMedia := func(mime string, data []byte) (string, error) {
		m := mediaOf(mime, data)
		media = append(media, m)
		return addMedia(call, server, m)
	}
	for _, part := range parts {
		var text string
		switch p := part.(type) {
		case *mcp.TextContent:
			text = p.Text
		case *mcp.ImageContent:
			text, err = addMedia(p.MIMEType, p.Data)
		case *mcp.AudioContent:
			text, err = addMedia(p.MIMEType, p.Data)
		case *mcp.ResourceLink:
			text = "[resource " + plainLine(p.URI, maxURI) + " " + plainLine(p.Name, maxOwnName) + "]"
		case *mcp.EmbeddedResource:
			text, err = readResource(call, server, p.Resource)
		default:
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		texts = append(texts, text)
	}
	return texts, media, nil
}

func mediaOf(mime string, data []byte) *chat.Media {
	return &chat.Media{MediaType: plainLine(mime, maxOwnName), Data: data}
}

// addMedia makes an artifact of data, and returns the text that stands for it.
func addMedia(call *host.Call, server *Server, m *chat.Media) (string, error) {
	name := server.Name + "-" + host.NewID()
	if err := call.AddArtifact(host.Artifact{Name: name, Parts: []host.Part{m}}); err != nil {
		return "", err
	}
	return "[" + m.MediaType + ", in the artifact " + name + "]", nil
}
