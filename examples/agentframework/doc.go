// Package agentframework shows how the threads, message stores and reducers of
// Microsoft's Agent Framework are written for agenthost: each sample of its page
// "Agent Chat History and Memory" is a runnable example. The page beside it,
// README.md, says what is called how, and what behaves otherwise and why.
package agentframework
