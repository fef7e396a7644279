// Package agentkit shows how code for AgentKit (TypeScript) is written
// for agenthost: each idea of its documentation is a runnable example under a name
// of its own. The page beside it, README.md, has the names, the differences with
// their reasons, and the test that shows each.
package agentkit
