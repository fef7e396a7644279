// Package agentkit shows how what is written for AgentKit (TypeScript) is written
// for agenthost: each idea of its documentation is a runnable example under a name
// of its own. The page beside it, README.md, says what is called how, what behaves
// otherwise and why, and which test shows it.
package agentkit
