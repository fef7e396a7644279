const kit = globalThis[Symbol.for("agenthost")];
export const {
  plugin, tool, processor, router, provider, result, interrupt, Failure,
  call, callBytes, kv, state, providerState, fetch, artifacts, step, emit, progress, messages, countTokens, generate, send, textOf, callTools, callTool, callToolsJSON, idle, log,
} = kit;
