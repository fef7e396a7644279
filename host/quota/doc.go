// Package quota bounds tenants' usage over all of their runs: tokens, tool calls
// and the time of runs in a window of time, and the rate of model calls.
//
//	quotas, err := quota.New(&quota.Options{
//		Default: quota.Budget{Tokens: 200_000},
//		Tenants: map[string]quota.Budget{"acme": {Tokens: 5_000_000, ModelCalls: 600}},
//	})
//	h, err := host.New(&host.Options{Quota: quotas})
//
// An exhausted budget is an error of code resource_exhausted, which is retryable
// and says when to try again. A rate limit only delays: a model that is asked
// too often is asked a little later, and the run has the event model.throttled.
//
// The books are in memory and of one process. Instructions of plugins have
// budgets of their own, with the tenants of package plugin.
package quota
