package threads

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/reduce"
)

var _ reduce.Pager = (*Store)(nil)

// MessagesAfter implements [reduce.Pager]: the messages that a thread shows after
// one of them, word for word, whatever Get returns of it; fewer than limit if they
// are huge. Code invalid_argument for a limit below 1.
func (s *Store) MessagesAfter(ctx context.Context, req *host.HistoryRequest, message string, limit int) (messages []*host.Message, found, more bool, err error) {
	if limit < 1 {
		return nil, false, false, host.Errorf(host.InvalidArgument, "read thread %q: limit is %d", req.Thread, limit)
	}
	t, err := readerOf(s.driver, req.Tenant).openOn(ctx, req.Thread, req.Branch)
	if err != nil || t == nil {
		return nil, false, false, err
	}
	shown, first := t.messageList(), uint64(0)
	if message != "" {
		at, has, err := t.log().position(ctx, message)
		if err != nil {
			return nil, false, false, err
		}
		if has {
			first, found = shown.IndexOf(at)+1, true
		}
	}
	bytes := 0
	for _, p := range shown.Slice(first, shown.Len()) {
		for m, err := range t.log().read(ctx, p) {
			if err != nil {
				return nil, false, false, err
			}
			if len(messages) == limit || bytes >= maxWindowBytes {
				return messages, found, true, nil
			}
			messages = append(messages, m)
			n, _ := m.Size()
			bytes += n
		}
	}
	return messages, found, false, nil
}
