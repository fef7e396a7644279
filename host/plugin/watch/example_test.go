package watch_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/watch"
	"github.com/agenthost/agenthost/internal/testcode"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// compiled is a directory that outlives the process: a plugin is compiled once.
var compiled = testcode.Dir()

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	rt, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: compiled})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close(context.Background())

	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "limiter.wasm"), tokenlimiter.Wasm, 0o600); err != nil {
		log.Fatal(err)
	}

	// A server leaves it running; this one stops after the first file.
	err = watch.Plugins(ctx, rt, dir, &watch.Options{Told: func(o watch.Outcome) {
		fmt.Println(o.ID, "version", o.Version.Number, "serves:", o.Err == nil)
		stop()
	}})
	if err != nil {
		log.Fatal(err)
	}

	// What an agent has of the plugin goes to whatever version serves.
	limiter, err := rt.Slot("limiter").Processor("", &plugin.PartOptions{Config: []byte(`{"limit": 4000}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("processor", limiter.Name())

	// Output:
	// limiter version 1 serves: true
	// processor tokenlimiter
}

// lockedBuilder is a strings.Builder for many goroutines.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
