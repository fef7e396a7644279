package plugin

import (
	"context"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/extism"
	"github.com/agenthost/agenthost/host/plugin/permission"
)

// operationPrice returns the price of an operation of the contract or of the embedder's.
// It fails for a name that this host does not have.
func (rt *Runtime) operationPrice(op string, request int) (int64, error) {
	if price, known := abi.OperationPrice(op, request); known {
		return price, nil
	}
	price, known := rt.operations.Price(op)
	if !known {
		return 0, hostfunc.Unknown(clean(op))
	}
	return price, nil
}

// missingOperations lists the operations that a plugin cannot live without and that the
// host does not have, or the tenant that the plugin is of. owner is "" for the host's.
func (rt *Runtime) missingOperations(m *Manifest, owner string) []error {
	return m.MissingOperations(func(op string) bool {
		if !permission.ValidOperation(op) {
			return true // it is among the manifest's own problems
		}
		_, known := rt.operations.Price(op)
		return known && (owner == "" || rt.operations.Has(op, owner))
	})
}

// embedded runs an operation of the embedder's. For a tenant that does not have it, it
// does not exist, whatever the plugin is granted.
func (b *binding) embedded(ctx context.Context, scope host.Scope, op string, req []byte) (out []byte, err error) {
	set := b.plugin.runtime.operations
	scope.Tenant = b.account.id
	if !set.Has(op, scope.Tenant) {
		return nil, hostfunc.Unknown(op)
	}
	if !b.rights().granted.AllowsOperation(op) {
		return nil, b.denied("operation="+op, "use the operation "+op)
	}
	b.usage.note(func(p *Permissions) {
		if !p.AllowsOperation(op) {
			p.Operations = append(p.Operations, op) // a name of the set, which is bounded
		}
	})
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { out, err = set.Run(ctx, op, scope, req) })
	return out, err
}

// userFunctions returns the functions that Extism plugins may import of this host: the
// contract's, and one for each operation of the embedder's.
func (rt *Runtime) userFunctions() []extism.Function {
	list := extism.UserFunctions()
	for name, op := range rt.operations.Functions() {
		list = append(list, extism.OperationFunction(name, op))
	}
	return list
}
