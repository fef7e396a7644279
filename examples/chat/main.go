// Command chat serves one page on which people talk with an agent: a list of
// their threads, answers while they are written, everything kept in Badger or
// PostgreSQL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// The server's patience.
const (
	headerTime = 10 * time.Second // for a request's header
	closeTime  = 10 * time.Second // for answers that are being written when it stops
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "where to listen")
	flags.StringVar(&o.data, "data", "chat-data", "the directory of the conversations; empty keeps them in memory")
	flags.StringVar(&o.postgres, "postgres", "", "the address of a PostgreSQL database that keeps them instead: postgres://USER:PASSWORD@HOST/DATABASE")
	flags.StringVar(&o.model, "model", "", "a real model by its name; needs OPENAI_API_KEY or OPENAI_BASE_URL")
	flags.SetOutput(out)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	o.logger = slog.Default()
	if o.data != "" {
		o.cache = filepath.Join(o.data, "wasm")
	}
	a, err := newApp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Open http://%s\n", listener.Addr())
	return serve(ctx, listener, a.handler())
}

// serve serves until ctx ends, and then lets answers come to their end.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	// Requests do not end with ctx: they get closeTime.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTime}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err := server.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // their runs are cancelled, and what they have is kept
	}
	<-ended
	return err
}
