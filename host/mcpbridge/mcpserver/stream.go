package mcpserver

import (
	"context"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host"
)

// ServeStream serves one client over a pair of streams, such as standard input and output,
// until the client closes its end or ctx ends. Nothing but messages of the protocol is
// written. It closes out, and in where the client does not.
func (s *Server) ServeStream(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller Caller) error {
	e, leave, err := s.enter(ctx, &caller)
	if err != nil {
		return err
	}
	defer leave()
	e.stream.Store(&request{caller: caller, gone: ctx})
	err = e.server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: int(s.opts.MaxBodyBytes)})
	if err != nil && ctx.Err() == nil {
		return host.Errorf(host.Unavailable, "the connection to the client ended: %w", err)
	}
	return nil
}
