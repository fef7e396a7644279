package otelhost

// The names of spans, attributes and metrics. Those that begin with gen_ai are the GenAI
// semantic conventions of OpenTelemetry, which are still in development and have left the
// module of OpenTelemetry itself; http, error, server and url are its stable conventions;
// agenthost is ours.

// The beginnings of spans' names; the name of the network, agent, model or tool follows.
const (
	spanWorkflow = "invoke_workflow"
	spanAgent    = "invoke_agent"
	spanChat     = "chat"
	spanTool     = "execute_tool"

	spanProcessor = "agenthost.processor"
	spanProvider  = "agenthost.provider"
	spanRouter    = "agenthost.router"
	spanSandbox   = "agenthost.sandbox"
)

// Attributes of the GenAI conventions.
const (
	keyOperation      = "gen_ai.operation.name" // invoke_workflow, invoke_agent, chat, execute_tool
	keyProvider       = "gen_ai.provider.name"
	keyConversation   = "gen_ai.conversation.id"
	keyWorkflow       = "gen_ai.workflow.name"
	keyAgent          = "gen_ai.agent.name"
	keyAgentText      = "gen_ai.agent.description"
	keyRequestModel   = "gen_ai.request.model"
	keyTemperature    = "gen_ai.request.temperature"
	keyMaxTokens      = "gen_ai.request.max_tokens"
	keyTopP           = "gen_ai.request.top_p"
	keyTopK           = "gen_ai.request.top_k"
	keyFrequency      = "gen_ai.request.frequency_penalty"
	keyPresence       = "gen_ai.request.presence_penalty"
	keySeed           = "gen_ai.request.seed"
	keyOutputType     = "gen_ai.output.type"
	keyResponseModel  = "gen_ai.response.model"
	keyResponseID     = "gen_ai.response.id"
	keyFinishReasons  = "gen_ai.response.finish_reasons"
	keyFirstChunk     = "gen_ai.response.time_to_first_chunk"
	keyInputTokens    = "gen_ai.usage.input_tokens"
	keyOutputTokens   = "gen_ai.usage.output_tokens"
	keyCachedTokens   = "gen_ai.usage.cache_read.input_tokens"
	keyReasonTokens   = "gen_ai.usage.reasoning.output_tokens"
	keyTokenType      = "gen_ai.token.type" // input, output
	keyTool           = "gen_ai.tool.name"
	keyToolType       = "gen_ai.tool.type"
	keyToolText       = "gen_ai.tool.description"
	keyToolCall       = "gen_ai.tool.call.id"
	keyToolArguments  = "gen_ai.tool.call.arguments" // content
	keyToolResult     = "gen_ai.tool.call.result"    // content
	keyInputMessages  = "gen_ai.input.messages"      // content
	keyOutputMessages = "gen_ai.output.messages"     // content
	keySystem         = "gen_ai.system_instructions" // content
)

// Attributes of the general conventions.
const (
	keyError      = "error.type" // a code of host
	keyMethod     = "http.request.method"
	keyRoute      = "http.route"
	keyStatus     = "http.response.status_code"
	keyServer     = "server.address"
	keyURLScheme  = "url.scheme"
	keyBodySize   = "http.request.body.size"
	keyAnswerSize = "http.response.body.size"
)

// Attributes of ours.
const (
	keyTenant       = "agenthost.tenant.id"
	keyRun          = "agenthost.run.id"
	keyResumes      = "agenthost.run.resumes"
	keyReplayed     = "agenthost.run.replayed"
	keyReason       = "agenthost.run.finish_reason"
	keyRounds       = "agenthost.agent.rounds"
	keyAsTool       = "agenthost.agent.as_tool"
	keyPurpose      = "agenthost.model.purpose" // agent, router, summary, plugin
	keyRetries      = "agenthost.model.retries"
	keyFallbacks    = "agenthost.model.fallbacks"
	keyEstimated    = "agenthost.model.usage_estimated"
	keyCost         = "agenthost.model.cost"
	keyCurrency     = "agenthost.model.cost.currency"
	keyAttempts     = "agenthost.tool.attempts"
	keyInterrupted  = "agenthost.tool.interrupted"
	keyToolProvider = "agenthost.tool.provider"
	keyKind         = "agenthost.operation.kind" // processor, provider, router, sandbox, http
	keyName         = "agenthost.operation.name"
	keyLevel        = "agenthost.processor.level"
	keyBefore       = "agenthost.processor.messages.before"
	keyAfter        = "agenthost.processor.messages.after"
	keyTokensBefore = "agenthost.processor.tokens.before"
	keyTokensAfter  = "agenthost.processor.tokens.after"
	keySkipped      = "agenthost.processor.skipped"
	keyMessages     = "agenthost.provider.messages"
	keyTools        = "agenthost.provider.tools"
	keyObserves     = "agenthost.provider.observes"
	keyNext         = "agenthost.router.next"
	keyDelegate     = "agenthost.router.delegate"
	keyPlugin       = "agenthost.plugin.name"
	keyVersion      = "agenthost.plugin.version"
	keyDigest       = "agenthost.plugin.digest"
	keyExport       = "agenthost.plugin.export"
	keyMemory       = "agenthost.plugin.memory.peak"
	keyInstructions = "agenthost.plugin.instructions"
	keyWait         = "agenthost.plugin.wait"
	keyRedirects    = "agenthost.http.redirects"
)

// Metrics.
const (
	metricTokens     = "gen_ai.client.token.usage"
	metricDuration   = "gen_ai.client.operation.duration"
	metricFirstChunk = "gen_ai.client.operation.time_to_first_chunk"
	metricCost       = "agenthost.model.cost"
	metricOperation  = "agenthost.operation.duration"
	metricRequest    = "http.server.request.duration"
)
