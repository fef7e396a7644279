package open

import (
	"context"
	"fmt"
	"os"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/kv"
)

// Record writes a change that a command is about to make to the audit log of a store, as
// one of this user of the machine. The change is not made if it cannot be written.
func Record(ctx context.Context, driver kv.Driver, action, tenant, object string) error {
	_, err := audit.New(driver).Append(ctx, &audit.Entry{
		Actor: fmt.Sprintf("cli/%d", os.Getuid()), Action: action, Tenant: tenant, Object: object, Outcome: "allowed",
	})
	return err
}
