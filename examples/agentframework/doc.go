// Package agentframework shows how the threads, message stores and reducers of
// Microsoft's Agent Framework are written for agenthost: each sample of its page
// "Agent Chat History and Memory" is a runnable example. The page beside it,
// README.md, has the names, the differences and their reasons.
package agentframework
