package datacmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/threads/transfer"
	"github.com/agenthost/agenthost/internal/termtext"
)

// historyReport is the output of data copy --history.
type historyReport struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Tenants  int    `json:"tenants"`
	Threads  int    `json:"threads"`
	Messages int    `json:"messages"`
	Written  int    `json:"written"` // messages that were not there before
}

// copyHistory copies the conversations in the tables that earlier versions made of
// --history, a thread at a time, and compares each with what was stored. TO may have
// other threads.
func (g *group) copyHistory(ctx context.Context, fromText, toText string) (_ *historyReport, err error) {
	fromAt, err := g.dirs.Resolve(fromText)
	if err != nil {
		return nil, err
	}
	toAt, err := g.dirs.Resolve(toText)
	switch {
	case err != nil:
		return nil, err
	case !fromAt.IsDatabase():
		return nil, cli.UsageError(fmt.Errorf("--history copies the tables of a database, and FROM is the directory %s", termtext.ShellWord(fromAt.String())), "agenthost data copy")
	case toAt.InMemory():
		return nil, cli.UsageError(errors.New("TO is a directory or the address of a database"), "agenthost data copy")
	}
	from, err := postgreshistory.Open(ctx, fromAt.Text(), &postgreshistory.Options{MigrationsDisabled: true, Logger: g.term.Logger()})
	if err != nil {
		return nil, err
	}
	defer from.Close()
	to, err := datadir.Open(ctx, toAt.Text(), g.dirs.Options())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	tenants, err := from.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	report := &historyReport{From: fromAt.String(), To: toAt.String(), Tenants: len(tenants)}
	store := threads.New(to.Driver, nil)
	show := ui.NewProgress(g.term)
	defer show.End()
	for _, tenant := range tenants {
		for list := (&postgreshistory.ListOptions{Limit: postgreshistory.MaxListLimit}); ; {
			page, err := from.List(ctx, tenant, list)
			if err != nil {
				return nil, err
			}
			for _, t := range page.Threads {
				if err := copyConversation(ctx, store.For(tenant), from, tenant, t, report); err != nil {
					return nil, host.Errorf(host.CodeOf(err), "copy thread %q of tenant %q: %w", t.ID, tenant, err).
						WithHint("run it again: what was copied is not copied twice; stop the hosts that write to %s", fromAt)
				}
				show.Say("%s copied", ui.Plural(report.Threads, "thread"))
			}
			if list.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	return report, nil
}

// copyConversation copies a thread and compares its messages with the stored ones.
func copyConversation(ctx context.Context, to *threads.Tenant, from *postgreshistory.Store, tenant string, t postgreshistory.Thread, report *historyReport) error {
	got, err := transfer.Import(ctx, to, sourceOf(ctx, from, tenant, t), nil)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(to.Messages(ctx, t.ID, threads.At{}))
	defer stop()
	n := 0
	for m, err := range from.ExportMessages(ctx, tenant, t.ID) {
		if err != nil {
			return err
		}
		stored, err, _ := next()
		if err != nil {
			return err
		}
		if stored != nil && m.CreatedAt.IsZero() {
			m.CreatedAt = stored.CreatedAt // the import gives a message without a time one
		}
		if stored == nil || !bytes.Equal(stored.AppendJSON(nil), m.AppendJSON(nil)) {
			return host.Errorf(host.Conflict, "message %d is not what was copied", n)
		}
		n++
	}
	report.Threads++
	report.Messages += n
	report.Written += got.Messages
	return nil
}

// source is a conversation for an import.
type source iter.Seq2[transfer.Item, error]

// Items implements [transfer.Source].
func (s source) Items() iter.Seq2[transfer.Item, error] { return iter.Seq2[transfer.Item, error](s) }

// sourceOf reads a conversation from its tables.
func sourceOf(ctx context.Context, from *postgreshistory.Store, tenant string, t postgreshistory.Thread) source {
	return func(yield func(transfer.Item, error) bool) {
		if !yield(transfer.Item{Thread: &threads.Thread{ID: t.ID, Title: t.Title, Created: t.Created, Updated: t.Updated}}, nil) {
			return
		}
		for m, err := range from.ExportMessages(ctx, tenant, t.ID) {
			if !yield(transfer.Item{Message: m}, err) || err != nil {
				return
			}
		}
		at := 0
		for turn, err := range from.ExportTurns(ctx, tenant, t.ID) {
			item := transfer.Item{}
			if err == nil {
				item.Snapshot = snapshotOf(turn, at)
				at = turn.Messages
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
		kept, err := from.ExportKept(ctx, tenant, t.ID)
		if err != nil {
			yield(transfer.Item{}, err)
			return
		}
		yieldKept(kept, yield)
	}
}

// yieldKept yields the state and the artifacts of a thread.
func yieldKept(kept *postgreshistory.Kept, yield func(transfer.Item, error) bool) {
	if kept.State != nil || len(kept.Providers) > 0 {
		if !yield(transfer.Item{State: kept.State, Providers: kept.Providers}, nil) {
			return
		}
	}
	for _, a := range kept.Artifacts {
		if !yield(transfer.Item{Artifact: a}, nil) {
			return
		}
	}
}

// snapshotOf returns the record of a turn that begins at a message.
func snapshotOf(t *postgreshistory.ExportedTurn, from int) *threads.Snapshot {
	s := &threads.Snapshot{ID: t.Run, Network: t.Network, Time: t.Stored, From: from, To: t.Messages,
		FinishReason: t.Status, Status: threads.Completed, Error: t.Error, Usage: t.Usage}
	switch t.Status {
	case chat.FinishInterrupted:
		s.Status = threads.Interrupted
	case chat.FinishFailed:
		s.Status = threads.Failed
	case chat.FinishCanceled:
		s.Status = threads.Canceled
	}
	return s
}
