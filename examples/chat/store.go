package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/agenthost/agenthost/examples/postgreshistory"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/threads"
)

// store is where conversations are kept: the host's history, and a list for the
// page.
type store struct {
	history interface {
		host.ThreadCreator
		host.UserMessageAppender
		host.HistoryLoader
		host.ResultAppender
	}
	list  func(ctx context.Context, tenant string) ([]listed, error)
	close func() error
}

// listed is a thread in the list of the page.
type listed struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Updated time.Time `json:"updated"`
}

// maxListed is how many threads the page shows.
const maxListed = 100

func openStore(ctx context.Context, o options) (*store, error) {
	if o.postgres != "" {
		return openPostgres(ctx, o)
	}
	driver := kv.Driver(kv.NewMemory())
	if o.data != "" {
		db, err := badgerkv.Open(filepath.Join(o.data, "db"), &badgerkv.Options{Logger: o.logger})
		if err != nil {
			return nil, err
		}
		driver = kv.Group(db) // turns that end at the same time share a sync
	}
	s := threads.New(driver, nil)
	return &store{history: s, close: driver.Close, list: func(ctx context.Context, tenant string) ([]listed, error) {
		page, err := s.For(tenant).List(ctx, &threads.ListOptions{Limit: maxListed})
		if err != nil {
			return nil, err
		}
		list := make([]listed, len(page.Threads))
		for i, t := range page.Threads {
			list[i] = listed{t.ID, t.Title, t.Updated}
		}
		return list, nil
	}}, nil
}

func openPostgres(ctx context.Context, o options) (*store, error) {
	s, err := postgreshistory.Open(ctx, o.postgres, &postgreshistory.Options{Logger: o.logger})
	if err != nil {
		return nil, err
	}
	closeStore := func() error { s.Close(); return nil }
	return &store{history: s, close: closeStore, list: func(ctx context.Context, tenant string) ([]listed, error) {
		page, err := s.List(ctx, tenant, &postgreshistory.ListOptions{Limit: maxListed})
		if err != nil {
			return nil, err
		}
		list := make([]listed, len(page.Threads))
		for i, t := range page.Threads {
			list[i] = listed{t.ID, t.Title, t.Updated}
		}
		return list, nil
	}}, nil
}
