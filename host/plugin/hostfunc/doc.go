// Package hostfunc adds operations of the embedding program to those of the plugin contract:
// a guest calls them by name, as it calls kv.get, and as Extism user functions.
//
//	charge := func(ctx context.Context, scope llm.Scope, in struct{ Cents int64 }) (left int64, err error) {
//		return 0, nil
//	}
//	rt, err := plugin.NewRuntime(ctx, &plugin.Options{Operations: []hostfunc.Operation{
//		hostfunc.New("billing.charge", charge),
//	}})
//
// In go operations of a program, out comes a [Set] that runs them by name. A plugin asks for
// them in its manifest (permissions.operations) and an operator grants them; package
// host/plugin holds every call to that. Set promises that no name is one of the contract's,
// now or later, that requests and responses are JSON within the operation's bounds, that an
// operation ends at its deadline, and that a panic in it is an error of code internal whose
// text stays in the log. A Set is safe for concurrent use and does not change.
package hostfunc
