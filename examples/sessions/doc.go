// Package sessions shows the samples of Genkit's page on sessions and state,
// written for agenthost: see README.md, and the examples of this directory's
// tests.
package sessions
