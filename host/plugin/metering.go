package plugin

import "github.com/agenthost/agenthost/host/plugin/internal/wasmmeter"

// PriceVersion is the version of the prices of instructions, and changes with them:
// the same call may cost other units under another version. Every [UsageReport] has it.
const PriceVersion = wasmmeter.PriceVersion
