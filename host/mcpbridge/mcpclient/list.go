package mcpclient

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agenthost/agenthost/host/fault"
)

// pageKeyOf is the context key of the number of a page.
type pageKeyOf struct{}

func pageKey(ctx context.Context) string {
	n, _ := ctx.Value(pageKeyOf{}).(int)
	return "page " + strconv.Itoa(n)
}

// tools returns the definitions as they were listed last, and why others are left out.
func (s *session) tools() (defs map[string]Definition, refused map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.defs), maps.Clone(s.refused)
}

// isCurrent reports whether the server has not said since the last list that it changed.
func (s *session) isCurrent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known == s.news.Load()
}

// refresh lists the tools again if the server has said that they changed.
func (s *session) refresh(ctx context.Context) error {
	if s.isCurrent() {
		return nil
	}
	return s.listAlone(ctx, s.isCurrent)
}

// refreshOffers is refresh for tools that are offered and not called yet: a list of a moment
// ago will do, since a call is checked against a current one.
func (s *session) refreshOffers(ctx context.Context) error {
	s.mu.Lock()
	recent := time.Since(s.listing) < refreshInterval
	s.mu.Unlock()
	if recent {
		return nil
	}
	return s.refresh(ctx)
}

// listAlone lists the tools, while no other caller does, unless that is needless by then.
func (s *session) listAlone(ctx context.Context, isNeedless func() bool) error {
	select {
	case s.lister <- struct{}{}:
		defer func() { <-s.lister }()
	case <-ctx.Done():
		return fault.ContextError(ctx)
	}
	if isNeedless() {
		return nil
	}
	return s.list(ctx)
}

// list lists the tools, in bounds.
func (s *session) list(ctx context.Context) error {
	known := s.news.Load() // a change from here on is news again
	defs, refused := map[string]Definition{}, map[string]string{}
	if init := s.cs.InitializeResult(); init != nil && init.Capabilities != nil && init.Capabilities.Tools != nil {
		err := eachPage(ctx, s.link, func(ctx context.Context, cursor string) (string, error) {
			page, err := s.cs.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			if err != nil {
				return "", s.explain(ctx, err)
			}
			for _, t := range page.Tools {
				s.take(t, defs, refused)
			}
			if most := s.link.servers.limits.Tools; len(defs)+len(refused) > most {
				return "", errTooMany(s.link, "Tools", "tools", most)
			}
			return page.NextCursor, nil
		})
		if err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.defs, s.refused, s.listing, s.known = defs, refused, time.Now(), known
	return nil
}

// take files one tool of a list under the definitions or the refused ones.
func (s *session) take(t *mcp.Tool, defs map[string]Definition, refused map[string]string) {
	name := plainLine(t.Name, maxOwnName)
	switch _, twice := defs[t.Name]; {
	case t.Name == "" || name != t.Name:
		refused[name] = "its name is empty, too long or has invisible characters"
		return
	case twice:
		delete(defs, t.Name)
		refused[name] = "two tools have the name"
		return
	case refused[name] != "":
		return
	}
	d, err := definitionOf(t)
	if err == nil {
		_, _, err = repairSchema(d.Schema)
	}
	if err != nil {
		refused[name] = err.Error()
		return
	}
	defs[t.Name] = d
}

// eachPage reads the pages of a list, until one has no cursor.
func eachPage(ctx context.Context, l *link, read func(ctx context.Context, cursor string) (next string, err error)) error {
	seen := map[string]bool{}
	cursor := ""
	for n := 1; ; n++ {
		next, err := read(context.WithValue(ctx, pageKeyOf{}, n), cursor)
		switch {
		case err != nil:
			return err
		case next == "":
			return nil
		case seen[next]:
			return fault.Errorf(fault.ResourceExhausted, "The MCP server %s sends a list that begins again.", l.server.Name)
		case n >= l.servers.limits.Pages:
			return errTooMany(l, "Pages", "pages of a list", l.servers.limits.Pages)
		}
		seen[next], cursor = true, next
	}
}

func errTooMany(l *link, limit, what string, most int) error {
	e := fault.Errorf(fault.ResourceExhausted, "The MCP server %s has more than %d %s.", l.server.Name, most, what)
	e.Limit = limit
	return e.WithHint("%s", fmt.Sprintf("offer fewer there, or raise Limits.%s", limit))
}
