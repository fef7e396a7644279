// Command embed puts a configured host into a program that serves two tenants. Both
// talk in a thread named "t1"; neither ever sees the other's.
package main

import (
	"context"
	"embed"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

//go:embed agenthost.yaml rules.yaml
var files embed.FS

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run answers three requests. The project is in the binary; project.Load(ctx, dir, nil)
// reads one from the disk, and Options.Data keeps the conversations in a directory.
func run(ctx context.Context, out io.Writer) (err error) {
	p, err := project.Load(ctx, ".", &project.Options{FS: files})
	if err != nil {
		return err
	}
	defer p.Close()

	for _, tenant := range []string{"acme", "acme", "globex"} { // from a credential, in a service
		result, err := p.Run(ctx, &host.Request{Tenant: tenant, Thread: "t1", Text: "What is the weather in Lisbon?"})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s\n", tenant, result.Text())
	}
	return nil
}
