package main

import (
	"strings"

	"github.com/agenthost/agenthost/examples"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

// exampleProject names the project that every binary has: the order desk of the demo.
const exampleProject = project.BuiltinPrefix + "orderdesk"

// openProject reads the configuration of the project that a command line names: a
// file, a directory, or exampleProject.
func openProject(where string) (*project.File, error) {
	if where == exampleProject {
		return project.ReadFile(examples.Files, strings.TrimPrefix(where, project.BuiltinPrefix))
	}
	return project.ReadFile(nil, where)
}

// checkChangeable refuses to change the project that is in the binary.
func checkChangeable(c *project.File) error {
	if !c.Embedded() {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s is in the binary and cannot be changed", exampleProject).
		WithHint("make a project of your own: agenthost init shop --template tools")
}
