package mcpserver_test

import (
	"context"
	"net/http"
	"strings"
)

// post sends a message of a session.
func (b *bench) post(ctx context.Context, credential, session, version, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return http.DefaultClient.Do(r)
}
