package lookup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// leastOfID is the shortest prefix of an id that is accepted, so that a typing error
// matches nothing. Ids begin with the time: a few characters tell days apart.
const leastOfID = 4

// maxScannedIDs bounds how many threads are searched for an id with a given prefix.
const maxScannedIDs = 10_000

// Thread returns the id of the thread that a person means: the thread with this
// id, or the only one whose id begins with it. Code invalid_argument if only a part of
// the threads was searched for the prefix.
func Thread(ctx context.Context, s *threads.Store, tenant, given string) (string, error) {
	_, err := s.For(tenant).Thread(ctx, given)
	if err == nil || host.CodeOf(err) != host.NotFound || len(given) < leastOfID {
		return given, nil // the command's own read reports the error
	}
	var ids []string
	opts := &threads.ListOptions{Limit: threads.MaxListLimit}
	for {
		page, err := s.For(tenant).List(ctx, opts)
		if err != nil {
			return "", err
		}
		for _, t := range page.Threads {
			ids = append(ids, t.ID)
		}
		if opts.Cursor = page.Next; opts.Cursor == "" {
			break
		}
		if len(ids) >= maxScannedIDs {
			break
		}
	}
	whole, err := ID("thread", given, ids)
	if err == nil && whole != given && opts.Cursor != "" { // threads that were not searched may match, too
		return "", host.Errorf(host.InvalidArgument, "no thread has the id %q, and only some of those that may begin so were looked at", given).
			WithHint("give the whole id; one is %s", termtext.Printable(whole))
	}
	return whole, err
}

// Run returns the id of the run that a person means, among the runs that can be
// continued.
func Run(ctx context.Context, s *threads.Store, tenant, given string) (string, error) {
	runs, err := s.For(tenant).Runs(ctx)
	if err != nil {
		return "", err
	}
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.Run
	}
	return ID("run", given, ids)
}

// ID returns the id among ids that begins with given. A whole id wins. A text that
// matches no id is returned unchanged: the later read reports it. Code invalid_argument
// if several ids match.
func ID(what, given string, ids []string) (string, error) {
	if slices.Contains(ids, given) || len(given) < leastOfID {
		return given, nil
	}
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(id, given) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return given, nil
	case 1:
		return found[0], nil
	}
	const shown = 3
	rest := ""
	if len(found) > shown {
		rest, found = fmt.Sprintf(" and %d more", len(found)-shown), found[:shown]
	}
	for i := range found {
		found[i] = termtext.Printable(found[i])
	}
	return "", host.Errorf(host.InvalidArgument, "several %ss begin with %q", what, given).
		WithHint("give more of the id: there are %s%s", strings.Join(found, ", "), rest)
}

// Message returns the id of the message that a person means: the message with that
// id, the one with that number, or the only one whose id begins with the text.
func Message(ctx context.Context, s *threads.Store, tenant, thread string, at threads.At, name string) (string, error) {
	n, err := strconv.Atoi(name)
	if err != nil {
		n = -1
	}
	var ids []string
	for m, err := range s.For(tenant).Messages(ctx, thread, at) {
		if err != nil {
			return "", err
		}
		if m.ID == name {
			return name, nil
		}
		ids = append(ids, m.ID)
	}
	if n >= 0 && n < len(ids) {
		return ids[n], nil
	}
	return ID("message", name, ids)
}
