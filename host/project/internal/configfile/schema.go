package configfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/codemode"
	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/memory"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/host/redismessages"
	"github.com/agenthost/agenthost/host/usage"
	"github.com/agenthost/agenthost/internal/termtext"
)

// SchemaName is the file beside a configuration that editors complete it with.
const SchemaName = "agenthost.schema.json"

// jsonSchema is the subset of JSON Schema that a configuration needs.
type jsonSchema struct {
	Schema      string                 `json:"$schema,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Maximum     *int                   `json:"maximum,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	Additional  any                    `json:"additionalProperties,omitempty"` // a *jsonSchema or false
}

// Schema returns the schema of [Config], derived from its type, so that it cannot
// drift from the decoder. It is of draft 7, which editors support best.
func Schema() []byte {
	s := schemaOfStruct(reflect.TypeFor[Config]())
	s.Schema = "http://json-schema.org/draft-07/schema#"
	s.Title = "agenthost.yaml"
	s.Description = "A project of agenthost: agents, networks, the plugins and models that they use."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // of strings and maps
	}
	return append(b, '\n')
}

func schemaOfStruct(t reflect.Type) *jsonSchema {
	s := &jsonSchema{Type: []string{"object", "null"}, Properties: map[string]*jsonSchema{}, Additional: false}
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		doc := keyDocs()[t.Name()+"."+key]
		member := schemaOf(f.Type)
		member.Description, member.Enum = doc.text, doc.oneOf
		s.Properties[key] = member
		if doc.required {
			s.Required = append(s.Required, key)
			s.Type = "object"
		}
	}
	return s
}

func schemaOf(t reflect.Type) *jsonSchema {
	switch t {
	case reflect.TypeFor[Duration]():
		nothing := 0
		return &jsonSchema{Type: []string{"string", "integer"}, Pattern: `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`, Maximum: &nothing}
	case reflect.TypeFor[byteSize]():
		return &jsonSchema{Type: []string{"integer", "string"}, Pattern: `^[0-9]+ *(KiB|MiB|GiB|kB|KB|MB|GB|B)?$`}
	case reflect.TypeFor[httpGrant]():
		return &jsonSchema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Map:
		return &jsonSchema{Type: []string{"object", "null"}, Additional: schemaOf(t.Elem())}
	case reflect.Slice:
		return &jsonSchema{Type: []string{"array", "null"}, Items: schemaOf(t.Elem())}
	case reflect.Bool:
		return &jsonSchema{Type: "boolean"}
	case reflect.String:
		return &jsonSchema{Type: "string"}
	case reflect.Float64:
		return &jsonSchema{Type: "number"}
	case reflect.Int, reflect.Int64:
		return &jsonSchema{Type: "integer"}
	case reflect.Interface:
		return &jsonSchema{}
	}
	panic(fmt.Sprintf("the configuration has a %s, for which there is no schema", t))
}

// keyDoc is an editor's help for a key.
type keyDoc struct {
	text     string
	oneOf    []string // the only values, if there are few
	required bool
}

// keyDocs are the docs of all keys, by the type and the name of each.
func keyDocs() map[string]keyDoc {
	say := func(format string, args ...any) keyDoc { return keyDoc{text: fmt.Sprintf(format, args...)} }
	need := func(text string) keyDoc { return keyDoc{text: text, required: true} }
	among := func(text string, values ...string) keyDoc { return keyDoc{text: text, oneOf: values} }
	onOff := []string{"none", "read", "write"}
	return map[string]keyDoc{
		"Config.version":           need("The version of this format: 1."),
		"Config.default":           say("The network or agent that runs when none is named. Absent: the first network by name, or the first agent."),
		"Config.serve_mcp":         say("What clients of the Model Context Protocol are offered: at /mcp of agenthost serve and agenthost dev, and by agenthost mcp. See docs/mcp.md."),
		"Config.model":             say("The model of agents that name none. It need not be said where there is one model only."),
		"Config.models":            say("Models by the names that agents use. Without any, a script answers."),
		"Config.plugins":           say("Plugins by their ids. Each is WebAssembly in a sandbox. The built-in ones need no entry: %s.", strings.Join(BuiltinNames(), ", ")),
		"Config.mcp":               say("Servers of the Model Context Protocol by their names. Agents use their tools as mcp:NAME."),
		"Config.agents":            say("Agents by name. Each can be run by itself."),
		"Config.networks":          say("Networks by name: agents, and a router that says who is next."),
		"Config.approve":           say("Calls of tools that a person must agree to: the run stops, and goes on with the answer."),
		"Config.history":           say("Where conversations are kept, and what every model is shown of them."),
		"Config.tenant":            say("The tenant of runs and sessions that name none with --tenant or in a request. Absent: default."),
		"Config.limits":            say("The limits of every run."),
		"Config.tenants":           say("What the plugins of a tenant may do and use, by tenant."),
		"Config.any_tenant":        say("The same for every tenant that is not listed."),
		"Config.share":             say("Registries of plugins, and which plugins of them are trusted."),
		"Share.registries":         say("Registries that are not reached by https at public addresses."),
		"Share.trust":              say("Which plugins are trusted. Absent: those of every registry, signed or not, and every file and upload."),
		"ShareRegistry.host":       say("HOST or HOST:PORT, as paths of plugins write it."),
		"ShareRegistry.plain_http": say("Ask it by http."),
		"ShareRegistry.addresses":  say("The addresses that it may have although they are not public: 10.1.0.0/16."),
		"Trust.from":               say("The registries that plugins may come from: HOST, or HOST/PATH with everything below it. Absent: any."),
		"Trust.keys":               say("Public keys of minisign by name, RW...: one of them, or of the identities, must have signed a plugin. Absent, like identities: no signature is asked for."),
		"Trust.identities":         say("Who signs by sigstore, without a key, by names of your own: a workflow or a person."),
		"Trust.repositories":       say("By the name of a key or an identity, the repositories that it may sign: HOST/PATH, with everything below it. Signatures by it that name no repository, as bundles of sigstore do not, count there. Absent: those that a signature names."),
		"Trust.files":              among("Whether plugins that are files beside the configuration must be signed, in FILE.minisig or FILE.sigstore.json beside each: signed, or allow (default).", TrustAllows, TrustSigned),
		"Trust.uploads":            among("Whether uploads of plugins must be signed, in the header Plugin-Signature: signed, or allow (default).", TrustAllows, TrustSigned),

		"TrustIdentity.issuer":          say("Who vouches for the subject, exactly: https://token.actions.githubusercontent.com for workflows of GitHub."),
		"TrustIdentity.issuer_pattern":  say("In its place, a regular expression of the whole issuer."),
		"TrustIdentity.subject":         say("Who signs, exactly: https://github.com/OWNER/REPOSITORY/.github/workflows/FILE@refs/tags/TAG, or an address of mail."),
		"TrustIdentity.subject_pattern": say("In its place, a regular expression of the whole subject."),
		"TrustIdentity.root":            {text: "The file of the trusted root of the instance of sigstore, in JSON, beside the configuration.", required: true},
		"TrustIdentity.log_entries":     say("How many transparency logs must have the signature. Absent: 1."),
		"TrustIdentity.without_log":     say("Whether no transparency log is asked for: timestamps is then at least 1."),
		"TrustIdentity.timestamps":      say("How many timestamp authorities must have said when it was signed. Absent: none, for a log says it too."),

		"Tenant.trust":   say("Which plugins may serve the tenant, beside the project's own trust."),
		"Config.prices":  say("What models cost, for budgets of money and for bills."),
		"Config.ceiling": say("The permissions that no grant can exceed. Absent: no ceiling."),

		"Model.provider": {"Who answers: scripted (not an LLM, needs nothing), openai (any OpenAI-compatible server), responses (OpenAI's Responses API), anthropic, gemini, or bedrock (Amazon's: models of Anthropic by the Messages API, others by chat completions).", ProviderNames(), true},
		"Model.name":     say("The model's name at its provider. Absent: the name that it has here."),
		"Model.base_url": say("Where the server is, such as http://localhost:11434/v1. Absent: OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GEMINI_BASE_URL, or the provider's own; of bedrock the one of its region."),
		"Model.key_env":  say("The environment variable that holds the key. Absent: OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or AWS_BEARER_TOKEN_BEDROCK; without that requests to Bedrock are signed, with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. A key itself never stands in a configuration."),
		"Model.rules":    say("Of a scripted model: the file that says what it answers."),
		"Model.timeout":  say("For how long the server may be silent, such as 30s."),
		"Model.fallback": say("Models of this configuration that are asked, in their order, when this one is down, overloaded or silent."),

		"Model.keep_raw":  say("Whether events have what the server sent, cut at 1 MiB an answer."),
		"Model.whole":     say("Whether an answer of which no reader takes the pieces is asked for in one piece, which takes less processor time. The server is then silent until the answer is complete, at most 10 minutes, or for timeout if that is longer."),
		"Model.effort":    say("Of openai, responses and gemini: how hard a model that reasons should, in the server's words, such as low, medium or high."),
		"Model.reasoning": among("Of openai: whether a model is sent what it thought before. Absent: until the user speaks again, and not to a server that refuses it.", "always", "never"),
		"Model.summary":   say("Of responses and gemini: whether the service tells what the model thought, such as auto. Absent: no."),
		"Model.store":     say("Of responses: whether the service keeps the answers."),
		"Model.thinking":  say("Of anthropic, and of bedrock for models of Anthropic: how many tokens the model may think, at least %d. Absent: it does not. Of gemini: the same, -1 for as many as it needs, %d for none. Absent: as the service has it.", anthropicmodel.MinThinkingTokens, geminimodel.DoNotThink),
		"Model.cache":     say("Of anthropic, and of bedrock for models of Anthropic: whether the service caches the prompt."),
		"Model.region":    say("Of bedrock: the region, such as eu-west-1. Absent: AWS_REGION or AWS_DEFAULT_REGION."),

		"History.each_round": say("Whether what an agent has said and its tools have answered is stored before the model is asked again. Absent: a turn is stored at its end."),
		"History.racing":     among("What a turn does while another runs on its thread: wait for it (default), end with code conflict, or take a branch of the thread.", "wait", "conflict", "branch"),
		"History.processors": say("What changes the history that every model is shown, before the processors of the network and the agent."),

		"Config.memory":             say("What agents remember across conversations, by name. An agent has it as tools (memory:NAME, or memory:NAME/TOOL with create, recall, update, delete or manage), and an agent or network as a provider that recalls (use: memory:NAME, config: {limit, heading})."),
		"Embeddings.provider":       {"Who makes the vectors: openai (any OpenAI-compatible server), gemini, or scripted (of the texts' spelling, needs nothing).", EmbeddingProviders(), true},
		"Embeddings.name":           say("The name of the model of embeddings at its provider, such as text-embedding-3-small or gemini-embedding-001."),
		"Embeddings.base_url":       say("Where the server is. Absent: as for models."),
		"Embeddings.key_env":        say("The environment variable that holds the key. Absent: OPENAI_API_KEY or GEMINI_API_KEY."),
		"Embeddings.timeout":        say("For how long the server may be silent, such as 30s."),
		"Embeddings.dimensions":     say("How long the vectors are, at most %d; 100,000 memories take their number of bytes each. Absent: as the model has it.", llm.MaxDimensions),
		"Embeddings.min_similarity": say("From which cosine, of 0 to 1, two texts mean like things; models differ in it. Absent: %v.", memory.DefaultMinSimilarity),
		"Embeddings.vectors":        say("How much memory the vectors that are searched may take, such as 1GiB; a scope with more is searched by words. Absent: %d MiB.", memory.DefaultVectorBytes>>20),

		"Memory.backend":          among("Where memories are kept: own (default), with the other data, or mem0.", ownMemory, Mem0Memory),
		"Memory.language":         say("Of own: the language whose words are stemmed (english), or none. All memories of a configuration have one."),
		"Memory.key_env":          say("Of mem0: the environment variable that holds the key. Absent: %s.", Mem0KeyVariable),
		"Memory.base_url":         say("Of mem0: where the server is. Absent: Mem0's own."),
		"Memory.timeout":          say("Of mem0: how long one request may take, such as 30s."),
		"Memory.writes":           among("Whether what is written is left in the durable queue and made after the turn (default), or at once.", queued, AtOnce),
		"Memory.embeddings":       say("Of own: the model that turns memories into vectors, so that searches compare meanings beside words. All memories of a configuration have one; while it is not reached, searches are by words."),
		"Memory.scope":            say("Whose memories a run uses, within its tenant. Absent: all runs of the tenant share them. Two memories with one scope are the same."),
		"MemoryScope.application": say("A name: the memories are this application's."),
		"MemoryScope.user_at":     say("Where the run's state has the name of the user, such as /user: the memories are that user's, and a run without one ends."),
		"MemoryScope.agent":       say("Whether each agent has memories of its own."),
		"MemoryScope.run":         say("Whether each run has memories of its own."),

		"Plugin.path":      say("A .wasm file, an Extism manifest (.json), the directory of a source in Go (built when it has changed) or JavaScript (plugin.js), builtin:NAME, or a shared plugin: oci://HOST/NAME:TAG, oci-layout:DIR:TAG (its digest is in agenthost.lock). Relative to this file. A manifest grants nothing: its allowed_hosts are what the plugin asks for."),
		"Plugin.build":     say("The command that makes the module at path of a source in any language. It runs when the module is missing or older than a file of its directory, and while a host runs, when one is saved."),
		"PluginBuild.run":  say("The program and its arguments, which no shell reads, such as [./build.sh, plugin.wasm]. It runs as the user of the host."),
		"PluginBuild.in":   say("The directory of the source, in which the command runs. Relative to this file. Absent: the directory of path."),
		"PluginBuild.env":  say("The names of further variables of the host's environment that the command gets, such as [HTTPS_PROXY]. It gets PATH, HOME, LANG, TZ, TMPDIR and what compilers read (CC, CFLAGS, RUSTC, CARGO_*, RUSTUP_*, GOPATH, GOPROXY, NODE_PATH, npm_config_* and the like) without it, but none that holds a secret."),
		"Plugin.engine":    among("What runs it: extismsdk, Extism's own SDK, for an Extism plugin that is trusted as this program is. Absent: the sandbox.", extismsdk.Name),
		"Plugin.grant":     say("What it may do, of what it asks for. Absent: nothing."),
		"Plugin.tenants":   say("The only tenants that have it. Absent: all."),
		"Plugin.limits":    say("What a call may use."),
		"Plugin.config":    say("The configuration that its tools are given. An Extism plugin reads it as its own, each value as text: over what its manifest has."),
		"Plugin.functions": say("Of an Extism plugin that does not describe itself: the functions that are tools. Absent: all of them but _start, a command's entry point."),
		"Plugin.prefix":    say("What begins the names under which agents have its tools, such as crm_. PLUGIN/TOOL stays the tool's own name."),
		"Plugin.rename":    say("New names of single tools, by their own names, without the prefix."),

		"Function.function":    need("The function's name in the module. A command's is _start: each call starts it in an instance of its own."),
		"Function.tool":        say("The tool's name. Absent: the function's."),
		"Function.description": say("What a model is told that it does."),
		"Function.parameters":  say("A JSON Schema of its arguments, which the function is given as JSON. Absent: the tool takes one text."),

		"PluginLimits.timeout":      say("How long a call may take (default %s).", plugin.DefaultTimeout),
		"PluginLimits.memory":       say("How much memory an instance may have (default %dMiB).", plugin.DefaultMemoryBytes>>20),
		"PluginLimits.instructions": say("How many instructions a call may take (default %s).", termtext.Thousands(plugin.DefaultInstructions)),
		"PluginLimits.output":       say("How large an answer may be (default %dMiB).", plugin.DefaultOutputBytes>>20),
		"PluginLimits.host_calls":   say("How many host operations a call may make."),
		"PluginLimits.instances":    say("How many calls for one tenant may run at once."),

		"Code.timeout":      say("How long the code of one call may take, without its tools (default %s).", codemode.DefaultTimeout),
		"Code.memory":       say("How much memory the engine may have (default %dMiB).", codemode.DefaultMemoryBytes>>20),
		"Code.instructions": say("How many instructions the code of one call may take (default %s).", termtext.Thousands(codemode.DefaultInstructions)),
		"Code.output":       say("How large the JSON of what code returns may be (default %dKiB).", codemode.DefaultResultBytes>>10),
		"Code.console":      say("How much the model is shown of what code writes to console (default %dKiB).", codemode.DefaultConsoleBytes>>10),
		"Code.instances":    say("How many calls for one tenant may run at once."),
		"Code.keep":         say("Whether code has a variable keep, an object that the next call of a run finds as this one left it."),
		"Code.direct":       say("Whether the model is offered the other tools as well. Absent: the code alone calls them."),

		"Agent.description":       say("What it is good for, in a sentence: a router that is a model decides by it."),
		"Agent.instructions":      say("The system prompt. {{.state.path}} stands for what the network's state has there."),
		"Agent.model":             say("One of the models above."),
		"Agent.tools":             say("PLUGIN for all tools of a plugin, PLUGIN/TOOL for one; memory:NAME, memory:NAME/TOOL for those of a memory; uploaded:PLUGIN for those of a plugin that the tenant of a run has uploaded, or that was uploaded for all, uploaded:* for those of all of them; mcp:SERVER for those of an MCP server, mcp:* for those of all that the tenant of a run has; %s for one that runs code which the model writes against the others.", CodeUse),
		"Agent.code":              say("Settings of %s, if it is among the tools. See docs/code.md.", CodeUse),
		"Agent.processors":        say("What changes the history that its model is shown, in order; what is stored stays."),
		"Agent.providers":         say("What adds instructions, messages or tools before its model is asked."),
		"Agent.tool_choice":       say("auto, any, none, or the name of the tool that must be called first."),
		"Agent.max_rounds":        say("How often its model may be asked in a row. Absent: until it calls no tool."),
		"Agent.on_max_rounds":     say("How a run of it ends there: stop, answer (the model is asked once more, without tools), fail. Absent: stop at its own max_rounds, answer at the host's limits."),
		"Agent.temperature":       say("The model's temperature."),
		"Agent.max_output_tokens": say("How long an answer may be."),

		"Agent.model_parameters": say("Members of the requests to its model's service, by the service's names: top_p, seed, stop, anything. prompt_cache: {long: true, key: NAME} or {off: true} says how the service caches the prompt, in the words of each. Not those that the host writes itself, such as messages, tools and max_output_tokens."),

		"Agent.agents":         say("Agents that it may call as tools. Each needs a description, and answers with its last words, or its output."),
		"Agent.prefill":        say("How the first answer of a run begins: the model continues it. Not every provider can."),
		"Agent.output":         say("A JSON Schema that its last answer fits. An answer that does not is asked for once more. Absent: text."),
		"Agent.serial_tools":   say("Whether its tools run one after the other; the model is asked to call one at a time."),
		"Agent.join_results":   say("Whether the results of the tools that one answer calls are one message; otherwise each is one."),
		"Agent.stop_after":     say("Tools after which it ends: when one of them has answered, its model is not asked again."),
		"Agent.provider_tools": say("Tools that the model's provider runs by itself, such as a web search."),

		"ProviderTool.provider": {"The provider of the models that are told of it; models of others are not.", ToolProviderNames(), true},
		"ProviderTool.tool":     need("Its declaration, in the provider's own words."),

		"Network.client":        say("What clients of its sessions may see."),
		"Agent.client":          say("What clients of its sessions may see, of an agent on its own."),
		"Agent.messages":        say("Where the messages of the agent on its own are kept, and shortened: agenthost run then has an agent thread of it, not a thread with turns. Absent: as all conversations are."),
		"Messages.store":        among("own (default), with the other data; redis; or memory, with the thread itself.", messageStores()...),
		"Messages.address_env":  say("Of redis: the environment variable that holds the server's address, such as redis://localhost:6379. An address itself, which may have a password, never stands in a configuration."),
		"Messages.key_prefix":   say("Of redis: what keys begin with (default %s).", redismessages.DefaultKeyPrefix),
		"Messages.max_messages": say("Of own and redis: how many messages the agent is shown; in Redis the others are removed. Absent: all."),
		"Messages.reducer":      say("Of own and memory: what makes the messages shorter. In own nothing is lost."),
		"Messages.trigger":      among("When the reducer runs: before messages are read (default), or after some were added.", reducerTriggers()...),

		"Client.hide":            say("Pointers to what is left out of events, sessions and snapshots: /custom/... in the custom state, /custom, /artifacts."),
		"Network.description":    say("What it is for."),
		"Network.agents":         say("Its agents, by their names above."),
		"Network.on_call":        say("Agents that routers and tools may name, and that no model is told of."),
		"Network.router":         say("Who decides who is next: PLUGIN, PLUGIN/ROUTER, in_order (the agents as they are listed, each once), or model (the default)."),
		"Network.routing":        say("How a router that is a model decides, be it the network's or the default one that a plugin leaves a decision to."),
		"Network.router_config":  say("The configuration that the router's plugin is given."),
		"Network.model":          say("The model of its agents that name none, and of a router that is a model."),
		"Network.processors":     say("What changes the history that models are shown, before the agents' own."),
		"Network.providers":      say("What adds instructions, messages or tools before a model is asked."),
		"Network.max_iterations": say("How many agents may run in one run. 0 is the host's cap."),
		"Network.state":          say("The state that a conversation begins with: any value."),
		"Network.state_schema":   say("A JSON Schema that the state fits, at the beginning and after each change. Absent: any object."),
		"Network.state_of":       among("Whether the state lives as long as the thread (default) or the run.", "thread", "run"),
		"Network.durable":        say("Whether runs write each step down, so that agenthost run --resume can go on with one whose process ended."),
		"Network.on_failure":     among("Whether a run that fails keeps the finished results (default).", "keep", "discard"),

		"Routing.instructions":  say("What the model is told in the place of the usual. The list of the agents follows, unless there is a reader. {{.state.path}} stands for what the state has there."),
		"Routing.model":         say("One of the models above. Absent: the network's."),
		"Routing.processors":    say("What changes the history that it is shown."),
		"Routing.reader":        say("The router, PLUGIN or PLUGIN/ROUTER, that reads the model's answer and says who is next. Without it the model chooses by calling a tool."),
		"Routing.reader_config": say("The configuration that the reader is given."),

		"Use.use":        need("PLUGIN, or PLUGIN/PART if it has several. As a processor also a reducer: " + strings.Join(ReducerNames(), ", ") + ". As a provider also a memory: memory:NAME."),
		"Use.config":     say("The configuration that it is given."),
		"Use.on_failure": among("Whether a processor that fails ends the run (default) or is passed over.", "fail", "skip"),

		"Config.tool_options": say("How long calls of tools may take, and how often one that failed is tried again."),
		"ToolOption.tool":     need("The tool's name, or * for every tool that has no entry of its own."),
		"ToolOption.timeout":  say("How long one attempt may take, such as 5s. Absent: a minute."),
		"ToolOption.retries":  say("How often a call that failed is tried again, if that may help: at most %d.", host.MaxToolRetries),

		"ServeMCP.targets":               say("The networks and agents that they call as tools. Absent: all. []: none."),
		"ServeMCP.tools":                 say("Tools that they call by themselves, without an agent: PLUGIN, PLUGIN/TOOL, memory:NAME, or %sPLUGIN and %s* for uploaded plugins of their tenant. Absent: none.", UploadedPrefix, UploadedPrefix),
		"ServeMCP.prompts":               say("Texts with arguments that people choose in a client, by their names."),
		"ServeMCP.threads":               among("Which thread a call of a network or agent is in that names none: call starts one, session continues that of the session's last call. Absent: call.", "call", SessionThreads),
		"ServeMCP.instructions":          say("What the models of clients read about the tools as a whole."),
		"ServeMCP.url":                   say("The address of /mcp for clients, if a proxy gives it another one, such as https://agents.example.com/mcp."),
		"ServeMCP.authorization_servers": say("The OAuth servers whose tokens clients have: GET /.well-known/oauth-protected-resource names them. Absent: clients have keys."),
		"MCPPrompt.title":                say("The name for people."),
		"MCPPrompt.description":          say("What it is for."),
		"MCPPrompt.arguments":            say("What people fill in."),
		"MCPPrompt.text":                 need("The text. {{.arguments.NAME}} inserts an argument."),
		"MCPArgument.name":               need("The name in the text."),
		"MCPArgument.description":        say("What to fill in."),
		"MCPArgument.required":           say("Whether it must be filled in."),
		"MCPArgument.values":             say("What clients suggest; other values are allowed."),

		"Approval.tool":   need("The tool's name, or * for every tool."),
		"Approval.when":   say("A JSON Schema: only calls whose arguments fit it are asked about. Absent: all."),
		"Approval.reason": say("What the person is shown."),

		"Approval.key":        say("A name of your own by which the question is found and answered: run --question KEY. {{.arguments.NAME}} inserts an argument of the call."),
		"Approval.timeout":    say("How long the question stands, such as 4h. Absent: for ever."),
		"Approval.on_timeout": among("What the answer is after the timeout: approve, deny, or expire (default), which ends the run.", OnTimeoutApprove, OnTimeoutDeny, OnTimeoutExpire),

		"Limits.run_tokens":       say("How many tokens a run may use, in and out."),
		"Limits.run_instructions": say("How many instructions all plugins of a run may use."),
		"Limits.run_timeout":      say("How long a run may take, such as 5m."),
		"Limits.tool_calls":       say("How many tools a run may call."),
		"Limits.input":            say("How large a request may be, such as 1MiB."),
		"Limits.state":            say("How large the state may be, such as 256kB."),

		"MCPServer.command":      say("The program of a process and its arguments; it speaks on its standard streams, ends with the host, and has no sandbox."),
		"MCPServer.dir":          say("Where the process runs. Absent: the directory of the configuration."),
		"MCPServer.env":          say("Variables of the process. It gets PATH, HOME, LANG, TZ and TMPDIR beside them, and nothing else of the host's environment."),
		"MCPServer.url":          say("The address of a server over HTTP, in the place of command."),
		"MCPServer.sse":          say("The server speaks the older transport of server-sent events."),
		"MCPServer.headers":      say("Headers of each request to the server."),
		"MCPServer.public_only":  say("Refuse addresses that are not of the public internet."),
		"MCPServer.protocol":     say("The newest version of the protocol to speak, such as 2025-06-18. Absent: the newest that both sides know."),
		"MCPServer.tenants":      say("The only tenants that have it. Absent: all."),
		"MCPServer.allow":        say("The tools that are offered, by the server's names, with * for any letters. Absent: all."),
		"MCPServer.deny":         say("Tools that are not offered, likewise."),
		"MCPServer.prefix":       say("What begins the names of its tools in agents. Absent: the server's name and two underscores; empty: nothing."),
		"MCPServer.rename":       say("New names of single tools, by the server's names, without the prefix."),
		"MCPServer.search_above": say("The number of tools above which agents find them with a search tool. Absent: 40; negative: never."),
		"MCPServer.sampling":     say("The server may ask the model of the run, without its conversation."),
		"MCPServer.elicitation":  say("The server may ask the person behind the run: the run stops, and goes on with the answer."),
		"MCPServer.resources":    say("Agents get tools that list and read its resources."),
		"MCPServer.prompts":      say("Agents get tools that list and read its prompts."),
		"MCPServer.hints":        say("The server is believed which of its tools change nothing or may be repeated."),
		"MCPServer.shared":       say("All tenants use one session, with the secrets of all tenants. Absent: each has its own."),
		"MCPServer.required":     say("A run fails while the server is down. Absent: it has the tools of the others."),
		"MCPServer.timeout":      say("How long one call may take. Absent: 1m."),
		"MCPSetting.name":        need("The header or the variable."),
		"MCPSetting.value":       say("Its value."),
		"MCPSetting.prefix":      say("What stands before the secret, such as \"Bearer \"."),
		"MCPSetting.secret":      say("The secret that the host fills in, such as TOKEN: the variable AGENTHOST_SECRET_TOKEN, or a tenant's own, AGENTHOST_SECRET_ACME__TOKEN."),
		"Tenant.mcp":             say("Its own MCP servers by their names, with its own secrets."),

		"Tenant.plugins": say("The plugins that it has. Absent: every one that is not for others only."),
		"Tenant.grants":  say("What its plugins may do, by plugin, in the place of the plugin's own grant."),
		"Tenant.limits":  say("What a call may use, where that is less than the plugin's own limits."),
		"Tenant.budget":  say("What its runs and plugins may use together in a window of time."),

		"Tenant.retention":      say("Which of its threads are kept; the others are removed while a host runs. Absent: all."),
		"Retention.max_age":     say("How long after its last update a thread is kept, such as 720h."),
		"Retention.max_threads": say("How many threads are kept, those that were updated last."),
		"Retention.max_bytes":   say("How much the threads that are kept have stored, such as 500MB, those that were updated last first."),

		"TenantLimits.timeout":      say("How long a call may take."),
		"TenantLimits.instructions": say("How many instructions a call may take."),
		"TenantLimits.output":       say("How large an answer may be."),
		"TenantLimits.host_calls":   say("How many host operations a call may make."),
		"TenantLimits.instances":    say("How many calls may run at once."),

		"Prices.version":   say("The version of the table, such as 2026-11. Each record of usage has the one that it was priced by."),
		"Prices.currency":  say("The currency, such as USD, for readers of bills."),
		"Prices.models":    say("The prices of a model, by its name above or at its provider."),
		"Price.input":      say("The price of a million tokens of input, such as 2.50."),
		"Price.cached":     say("The same of input that the provider had in its cache. Absent: the price of input."),
		"Price.output":     say("The same of output."),
		"Price.reasoning":  say("The same of output that the model thought. Absent: the price of output."),
		"Price.max_output": say("How many tokens an answer has at most where the agent sets no number. Absent: %d.", usage.DefaultMaxOutput),

		"Budget.window":        say("The window of time, such as 1h."),
		"Budget.instructions":  say("How many instructions in a window."),
		"Budget.host_calls":    say("How many host operations in a window."),
		"Budget.http_requests": say("How many HTTP requests in a window."),
		"Budget.model_tokens":  say("How many tokens of models that plugins ask in a window."),
		"Budget.tokens":        say("How many tokens of all runs in a window."),
		"Budget.tool_calls":    say("How many tool calls of all runs in a window."),
		"Budget.time":          say("How long all runs may take together in a window, such as 2h. Runs that are under way at once count each."),
		"Budget.model_calls":   say("How often runs may ask each model in a minute; beyond it they wait."),
		"Budget.money":         say("How much models may cost in a window, in the currency of the prices. A model without a price is refused."),
		"Budget.max_output":    say("How many tokens an answer has at most where the agent sets no number."),
		"Budget.windows":       say("Limits in more windows, each beside the others: by a length such as 24h, or hour, day or month of the calendar in UTC. What is limited in any window has no default limit."),
		"Amounts.tokens":       say("How many tokens of all runs in the window."),
		"Amounts.instructions": say("How many instructions of all plugins in the window."),
		"Amounts.model_calls":  say("How many calls of models by runs in the window."),
		"Amounts.tool_calls":   say("How many tool calls of all runs in the window."),
		"Amounts.time":         say("How long all runs may take together in the window."),
		"Amounts.money":        say("How much models may cost in the window."),

		"Grants.state":    among("Read or write the network's state.", onOff...),
		"Grants.kv":       among("Read or write the plugin's own store.", onOff...),
		"Grants.http":     say("Servers that it may reach: https://HOST, https://HOST:PORT, or GET,POST https://HOST. One that has no public address needs its range: https://HOST at 10.1.0.0/16."),
		"Grants.secrets":  say("Secrets that the host fills into its requests to these hosts; the plugin never sees them."),
		"Grants.messages": say("Read the conversation."),
		"Grants.model":    say("Ask a model."),
		"Grants.queue":    say("Send to the queue."),
		"Grants.clock":    say("Read the clock."),
		"Grants.random":   say("Read random numbers."),
		"Grants.tools":    say("Tools of the agent at work that its tools may call, by their names; * is each of them."),

		"Grants.operations": say("Operations of the program that embeds the host, by name."),

		"SecretGrant.name":  need("The secret's name."),
		"SecretGrant.hosts": need("The hosts that requests with it may go to."),
	}
}
