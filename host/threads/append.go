package threads

import (
	"context"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv"
)

// append adds to the log the messages that the thread does not have yet and
// returns their number. A draft appends once.
func (d *draft) append(ctx context.Context, messages []*host.Message) (int, error) {
	messages, err := d.unknown(ctx, messages)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	first := d.thread.rec.Messages
	d.index.addWords(first, messages)
	if err := d.putLog(ctx, messages); err != nil {
		return 0, err
	}
	single, err := d.index.addMessages(first, messages)
	if err != nil {
		return 0, err
	}
	if len(messages) <= maxTurnEntries {
		d.tx.add(single...)
		return len(messages), nil
	}
	return len(messages), d.tx.writeAhead(ctx, single)
}

// putLog adds messages to the end of the log. Small messages that follow each other are
// one entry, up to maxEntryBytes, and a larger one is an entry of its own. A turn with
// many messages puts as many into an entry as keep the number of its entries in bounds.
func (d *draft) putLog(ctx context.Context, messages []*host.Message) error {
	least := (len(messages) + maxTurnEntries - 1) / maxTurnEntries
	group, entry := messages[:0], newLogEntry()
	for i, m := range messages {
		before := len(entry)
		entry = appendToLogEntry(entry, m)
		if len(group) >= least && len(entry) > maxEntryBytes {
			next := appendToLogEntry(newLogEntry(), m)
			if err := d.putLogEntry(ctx, group, entry[:before]); err != nil {
				return err
			}
			group, entry = messages[i:i], next
		}
		group = group[:len(group)+1]
	}
	return d.putLogEntry(ctx, group, entry)
}

// newLogEntry returns an entry of the log to which [appendToLogEntry] adds messages. It
// lacks its last byte, which putLogEntry adds.
func newLogEntry() []byte { return append(make([]byte, 0, 1<<10), formatJSON, '[') }

func appendToLogEntry(entry []byte, m *host.Message) []byte {
	if len(entry) > len("\x01[") {
		entry = append(entry, ',')
	}
	return m.AppendJSON(entry)
}

// putLogEntry adds an entry to the end of the log. An entry must be readable once it is
// stored, so a message that may not be is decoded here first: an unreadable message would
// make the whole thread unreadable.
func (d *draft) putLogEntry(ctx context.Context, messages []*host.Message, entry []byte) error {
	entry = append(entry, ']')
	if slices.ContainsFunc(messages, holdsJSON) {
		if _, err := chat.DecodeMessages(entry[1:]); err != nil {
			return host.Errorf(host.InvalidArgument, "message %q cannot be stored: %w", messages[0].ID, err)
		}
	}
	value, err := d.tx.valueOf(ctx, d.thread.contents(), entry)
	if err != nil {
		return err
	}
	d.tx.put(d.thread.content.logAt(d.thread.rec.Messages), value)
	d.thread.rec.Messages += uint64(len(messages))
	return nil
}

// unknown returns the messages that the thread does not show, each once. Ids of
// this program are known to be new where they come after all that the content has.
// Mostly the others are new, too, so at first the transaction bets on it; when the bet
// is lost, and for a turn with more messages than it can bet on, each is looked up.
// A thread that goes back to the logs of others looks there in any case.
func (d *draft) unknown(ctx context.Context, messages []*host.Message) ([]*host.Message, error) {
	seen := make(map[string]bool, len(messages))
	out := make([]*host.Message, 0, len(messages))
	lookUp := d.looksUp(messages)
	for _, m := range messages {
		if err := chat.ValidateID("message", m.ID, MaxMessageIDBytes); err != nil {
			return nil, err
		}
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		if d.index.isNew(m.ID) {
			out = append(out, m)
			continue
		}
		if !lookUp {
			d.tx.require(kv.Absent(d.thread.content.message(m.ID)))
		}
		if lookUp || d.thread.view.OwnRank() > 0 || d.index.mayBeGrouped(m.ID) {
			known, err := d.knows(ctx, m.ID)
			if err != nil {
				return nil, err
			}
			if known {
				continue
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// knows reports whether the thread shows a message of that id. It records for the index
// where the log has hidden messages of the id.
func (d *draft) knows(ctx context.Context, id string) (bool, error) {
	_, shown, err := d.thread.log().position(ctx, id)
	if err != nil || shown {
		return shown, err
	}
	lies, err := d.thread.log().indexed(ctx, d.thread.content, id)
	if err != nil || len(lies) == 0 {
		return false, err
	}
	if d.index.hidden == nil {
		d.index.hidden = map[string][]uint64{}
	}
	d.index.hidden[id] = slices.DeleteFunc(lies, func(seq uint64) bool { return seq >= d.before.Messages })
	return false, nil
}

// looksUp reports whether messages are looked up rather than bet on.
func (d *draft) looksUp(messages []*host.Message) bool {
	return d.careful || len(messages) > maxTurnEntries
}
