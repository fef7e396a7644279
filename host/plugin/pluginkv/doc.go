// Package pluginkv keeps the items of plugins on a [kv.Driver], so that they are as
// durable as the driver makes them. [Store] is a plugin.Store; one over
// [kv.NewMemory] lasts as long as the program.
package pluginkv
