package project_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// files stand for a directory on disk: project.Load(ctx, "shop", nil) reads that.
var files = fstest.MapFS{
	"shop/agenthost.yaml": {Data: []byte("version: 1\nagents: {clerk: {}}\nmodels: {m: {provider: scripted, rules: rules.yaml}}\n")},
	"shop/rules.yaml":     {Data: []byte("rules: [{match: {}, reply: {text: It was sent yesterday.}}]\n")},
}

func Example() {
	ctx := context.Background()
	p, err := project.Load(ctx, "shop", &project.Options{FS: files})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	result, err := p.Run(ctx, &host.Request{Text: "where is order 1042?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: It was sent yesterday.
}

// An error names the line, the column and what was probably meant.
func ExampleReadFile() {
	_, err := project.ReadFile(fstest.MapFS{"agenthost.yaml": {Data: []byte("version: 1\nagnets: {clerk: {}}\n")}}, ".")
	fmt.Println(err)
	// Output: agenthost.yaml:2:1: unknown key "agnets"; did you mean "agents"?
}
