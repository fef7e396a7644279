package hostfunc_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin/hostfunc"
)

// A program gives its plugins an operation. Set stands for the runtime, which takes the
// list as plugin.Options.Operations.
func Example() {
	balance := map[string]int64{"acme": 100}
	type charge struct {
		Cents int64 `json:"cents"`
	}
	type charged struct {
		Left int64 `json:"left"`
	}
	operations := []hostfunc.Operation{
		hostfunc.New("billing.charge", func(_ context.Context, scope llm.Scope, in charge) (charged, error) {
			if in.Cents > balance[scope.Tenant] {
				return charged{}, fault.Errorf(fault.FailedPrecondition, "the balance is %d cents", balance[scope.Tenant])
			}
			balance[scope.Tenant] -= in.Cents
			return charged{Left: balance[scope.Tenant]}, nil
		}),
	}
	set, err := hostfunc.NewSet(operations, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		response, err := set.Run(context.Background(), "billing.charge", llm.Scope{Tenant: "acme"}, json.RawMessage(`{"cents":60}`))
		fmt.Println(string(response), err)
	}
	// Output:
	// {"left":40} <nil>
	//  the balance is 40 cents
}
