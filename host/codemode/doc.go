// Package codemode lets a model write JavaScript against the tools of its agent: one tool,
// run_code, whose code calls the others, computes with their answers, and returns the part
// that the model needs to see. Forty calls and what they return are one round of the model.
//
//	mode, err := codemode.New(ctx, rt, nil)
//	tools, err := mode.Tools(listOrders, getInvoice, sendReminder)
//	agent, err := host.NewAgent("clerk", &host.AgentOptions{Tools: tools})
//
// Specifications of tools go in; out comes a tool whose description declares them in
// TypeScript, and that runs code in a sandboxed engine ([plugin.Runtime]). The package
// promises that code has no way out but the tools that its agent may call itself, each held
// to what holds for every call of it: schemas, approvals, questions, hooks, budgets, the
// journal. Every call has a fresh instance with limits of time, instructions, memory and
// output; clock, random numbers and order are the same when code starts again after a
// question or in another process, so that no call happens twice. A [Mode] is safe for concurrent use.
//
// The engine is that of package pdk/js.
package codemode
