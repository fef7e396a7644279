// Package mcpclient gives agents the tools, resources and prompts of servers that speak the
// Model Context Protocol.
//
// [New] returns the servers of a program: those that every tenant has, and those of single
// tenants. [Servers.Provider] is a context provider that offers an agent their tools, under
// names that cannot collide; [Servers.Resources] and [Servers.Prompt] read the rest. A
// session is opened when a call needs it, is used by one tenant alone unless the server is
// shared, and ends after an idle time.
//
// The definition of a tool (its name, description, schema and hints) is pinned: by a [Lock],
// which a person reads and accepts, or to the one that the server gave first. A definition
// that changes is held back until it is accepted, so that a server cannot change the words
// that a model reads after a person has read them.
//
// A server is not trusted. Its lists, results, messages and their rate are bounded, each
// call has a deadline, its texts lose invisible characters, a schema that a provider would
// refuse is repaired or the tool is left out with a reason, and its messages never get a
// role that a model obeys. A process gets no environment but its own, and ends with the
// host. What it is not is a sandbox: a process of a server can do what the user of the host
// can.
package mcpclient
