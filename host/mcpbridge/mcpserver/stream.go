package mcpserver

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
)

// streamKey is the context key of the request that a stream is: the contexts of its messages
// are children of the one that the stream was connected with.
type streamKey struct{}

// ServeStream serves one client over a pair of streams, such as standard input and output,
// until the client closes its end or ctx ends. The stream is one session, in every version of
// the protocol. Nothing but messages of the protocol is written. It closes out, and in where the client does not.
func (s *Server) ServeStream(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller Caller) error {
	e, leave, err := s.enter(ctx, &caller)
	if err != nil {
		return err
	}
	defer leave()
	from := &request{caller: caller, gone: ctx, threads: &keptThreads{}}
	err = e.server.Run(context.WithValue(ctx, streamKey{}, from), &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: int(s.opts.MaxBodyBytes)})
	if err != nil && ctx.Err() == nil {
		return host.Errorf(host.Unavailable, "the connection to the client ended: %w", err)
	}
	return nil
}
