// Package pluginkv keeps what plugins keep between calls on a [kv.Driver], so
// that it is there again after a restart, and is as durable as the driver makes
// it. [Store] is a plugin.Store; [plugin.NewMemoryStore] is the one that forgets.
package pluginkv
