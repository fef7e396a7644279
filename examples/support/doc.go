// Package support shows a network in which three levels of sandboxed processors
// decide what each agent is shown of the conversation. See its README.
package support
