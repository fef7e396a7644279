package trace_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/trace"
)

func Example() {
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	runs, err := trace.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	agent, err := host.NewAgent("greeter", &host.AgentOptions{Model: hosttest.NewModel(hosttest.Say("Hello."))})
	if err != nil {
		log.Fatal(err)
	}
	h, err := host.New(&host.Options{SingleTenant: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range runs.Keep(h.Stream(context.Background(), agent, &host.Request{Text: "hello"})) {
		if err != nil {
			log.Fatal(err)
		}
	}

	run, err := trace.Read(dir, trace.Last, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range run.Spans {
		fmt.Println(s.Kind, s.Name, s.Detail)
		for _, s := range s.Spans {
			fmt.Println(" ", s.Kind, s.Name, s.Detail)
		}
	}
	// Output:
	// agent greeter scripted, stop
	//   model scripted round 1, 1 messages → "Hello."
}
