package plugin

import "github.com/agenthost/agenthost/host/plugin/internal/abi"

// Short names of the contract's entry points.
type export = abi.Export

const (
	exportDescribe = abi.Describe
	exportTool     = abi.Tool
	exportProcess  = abi.Process
	exportRoute    = abi.Route
	exportProvide  = abi.Provide
	exportObserve  = abi.Observe
	exportCount    = abi.ExportCount

	exportPrefix     = abi.ExportPrefix
	initializeExport = abi.Initialize
	importModule     = abi.ImportModule
)
