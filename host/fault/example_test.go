package fault_test

import (
	"errors"
	"fmt"

	"github.com/agenthost/agenthost/host/fault"
)

func ExampleErrorf() {
	err := fmt.Errorf("answer the request: %w",
		fault.Errorf(fault.NotFound, "there is no thread %q", "t-7").WithHint("list them with: agenthost thread list"))
	fmt.Println(err)
	fmt.Println(fault.CodeOf(err), fault.CodeOf(err).HTTPStatus(), fault.CodeOf(err).ExitCode())
	// Output:
	// answer the request: there is no thread "t-7"; list them with: agenthost thread list
	// not_found 404 4
}

// A client does not read the text of a driver.
func ExampleForClient() {
	driver := errors.New("dial tcp 10.0.3.7:5432: connection refused")
	fmt.Println(fault.ForClient(fault.Errorf(fault.Unavailable, "load the thread: %w", driver), "run-1"))
	fmt.Println(fault.ForClient(fault.Errorf(fault.Conflict, "another turn was stored first"), "run-1"))
	// Output:
	// internal error (run run-1)
	// another turn was stored first
}
