package host_test

// Scenario: packages of the module import only those that the import table and the fence
// table allow.

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The import table. When this test stops you, the dependency is usually upside
// down: declare the small interface you need where you call it.

const modulePath = "github.com/agenthost/agenthost"

// layer says what the packages under a directory may import of this module.
type layer struct {
	dir     string   // and everything below it that has no row of its own
	imports []string // directories, exact; "..." at the end means everything below too
	why     string
}

var layers = []layer{
	{"host", []string{"host/agentthread", "host/chat", "host/fault", "host/instrument", "host/internal/agentchoice", "host/internal/callbatch", "host/internal/foreign", "host/internal/hookedit", "host/internal/journalguard", "host/internal/jsondoc", "host/internal/modelcall", "host/internal/nesting", "host/internal/redact", "host/internal/replay", "host/internal/report", "host/internal/runusage", "host/internal/schema", "host/internal/statedoc", "host/internal/toolfault", "host/llm", "host/nested", "host/providerstate", "host/runevent", "host/runledger", "host/runlimit", "host/runlog"},
		"the domain and the loop depend on interfaces of their own; what satisfies them lies below"},
	{"host/fault", nil,
		"an error, its code and its text for clients: every package may say so, and this one knows none of them"},
	{"host/chat", []string{"host/fault", "host/internal/jsondoc"},
		"messages and their JSON: stores, models and protocols need them without the loop"},
	{"host/instrument", []string{"host/chat", "host/fault", "host/internal/foreign", "host/llm"},
		"the contract of what is called around operations: it knows what they are, and nothing of who does them"},
	{"host/otelhost", []string{"host", "host/chat", "host/fault", "host/instrument", "host/llm", "host/modelhttp"},
		"operations in, spans and metrics out: it knows no store, no plugin and no server"},
	{"host/providerstate", []string{"host/fault", "host/internal/jsondoc"},
		"a value for each key, as a run leaves it; it knows no provider"},
	{"host/internal/foreign", []string{"host/fault"},
		"a function that may panic or never return is the same whatever it does"},
	{"host/llm", []string{"host/chat", "host/fault", "host/internal/foreign", "host/internal/jsondoc"},
		"a model and a processor of its history know nothing of who asks"},
	{"host/runevent", []string{"host/chat", "host/fault", "host/internal/jsondoc", "host/internal/replay", "host/llm", "host/runlog"},
		"the reports of a run are read by programs that run nothing"},
	{"host/internal/jsondoc", []string{"host/fault"},
		"JSON in, JSON and operations out; it knows nothing of agents"},
	{"host/internal/schema", []string{"host/internal/jsondoc"},
		"a schema and JSON in, faults out; it knows nothing of tools and states"},
	{"host/internal/statedoc", []string{"host/fault", "host/internal/jsondoc", "host/internal/schema"},
		"an object that several writers patch; it knows nothing of runs, tools and events"},
	{"host/runlimit", []string{"host/fault"},
		"numbers and their defaults: stores, plans and configurations name them without the loop"},
	{"host/runledger", []string{"host/chat", "host/llm"},
		"the contract of ledgers: what counts for tenants needs nothing of the loop"},
	{"host/internal/runusage", []string{"host/chat", "host/fault", "host/internal/report", "host/llm", "host/runevent", "host/runledger", "host/runlimit"},
		"usage in, an error at a limit out: it asks no model and runs no tool"},
	{"host/internal/modelcall", []string{"host/chat", "host/fault", "host/instrument", "host/internal/report", "host/internal/runusage", "host/llm", "host/runevent", "host/runledger"},
		"a request in, a checked answer out, with its events and usage: it chooses no model and runs no tool"},
	{"host/runlog", []string{"host/fault", "host/internal/jsondoc"},
		"the contract of journals: a store that implements it needs nothing of the loop"},
	{"host/internal/replay", []string{"host/chat", "host/fault", "host/internal/callbatch", "host/internal/jsondoc", "host/internal/statedoc", "host/llm", "host/nested", "host/runlog"},
		"steps in, a run out: the stored form of runs knows no agents and tools"},
	{"host/agentthread", []string{"host/chat", "host/fault", "host/internal/foreign", "host/internal/jsondoc", "host/internal/replay", "host/internal/statedoc", "host/llm", "host/runlog"},
		"a conversation that the caller holds: runs use it through a few calls and it knows none of them"},
	{"host/nested", []string{"host/chat", "host/fault"},
		"calls in, answers out: tools, journals and kits name them without the loop"},
	{"host/internal/journalguard", []string{"host/fault", "host/internal/foreign", "host/runlimit", "host/runlog"},
		"a journal in, the same one within limits out; it knows no run"},
	{"host/internal/agentchoice", []string{"host/chat", "host/internal/jsondoc", "host/llm"},
		"agents and an answer in, a prompt and a name out: it knows no router and asks no model"},
	{"host/internal/hookedit", []string{"host/chat", "host/fault"},
		"instructions and messages in, the same with a hook's changes out: it knows no hook and no run"},
	{"host/internal/nesting", []string{"host/chat", "host/fault", "host/internal/jsondoc", "host/internal/replay", "host/nested"},
		"lists of calls in, the order and the bounds of them out; it knows no tool"},
	{"host/internal/callbatch", []string{"host/fault"},
		"reports in, reports out, in order and within bounds: it knows no tool, run or event"},
	{"host/internal/toolfault", []string{"host/fault", "host/internal/redact", "host/llm"},
		"an error, or a name beside those of tools, in, a sentence for a model out; it knows nothing of tools and runs"},
	{"host/internal/report", []string{"host/chat", "host/fault", "host/internal/jsondoc", "host/internal/redact", "host/internal/statedoc", "host/llm", "host/runevent"},
		"data of events in, numbered events out: it knows no network and no tool"},
	{"host/internal/redact", nil,
		"text in, text without paths and addresses out"},
	{"host/fallbackmodel", []string{"host", "host/fault", "host/llm"},
		"a model made of models, as anybody could write one"},
	{"host/hosttest", []string{"host", "host/chat", "host/fault", "host/llm", "host/nested", "host/runevent", "host/runlog"},
		"the kit tests any implementation of host's interfaces, so it may know none of them"},
	{"host/kv", nil,
		"where bytes go knows nothing of what they mean: a store can be used and tested alone"},
	{"host/kv/kvtest", []string{"host/kv"},
		"the kit for drivers knows the driver interface only"},
	{"host/kv/internal/datakey", nil,
		"keys and bytes in, sealed bytes out: drivers that encrypt do it alike"},
	{"host/kv/badgerkv", []string{"host/internal/cache", "host/kv", "host/kv/internal/datakey"},
		"a driver is one technology behind one interface"},
	{"host/kv/kvcopy", []string{"host/kv"},
		"entries in, entries out: it knows drivers by their interface alone"},
	{"host/kv/pgkv", []string{"host/kv", "host/kv/internal/datakey"},
		"a driver over a server is a driver like any other"},
	{"internal/testdriver", []string{"host/kv", "host/kv/badgerkv", "internal/pgkvtest", "internal/testdir"},
		"the suites over a store run on every driver, which one variable names"},
	{"internal/pgkvtest", []string{"host/kv", "host/kv/pgkv"},
		"the tests of every package that keeps records make their stores on a server in one way"},
	{"internal/soak", []string{"host", "host/chat", "host/cluster", "host/hosttest", "host/kv", "host/kv/badgerkv", "host/kv/pgkv", "host/llm", "host/project", "host/runs", "host/scriptedmodel", "host/threads"},
		"whole hosts as processes, which it breaks; nothing imports it"},
	{"host/kv/sockkv", []string{"host/kv"},
		"a driver of another process is a driver like any other"},
	{"host/tokens", []string{"host/internal/cache"},
		"counting tokens is text in, number out; host.TokenCounter is satisfied without importing it"},
	{"host/egress", []string{"host/fault", "host/internal/cache", "host/internal/defaults"},
		"the guard of requests knows nothing of who is guarded: it can be judged and tested alone"},
	{"host/plugin", []string{"host", "host/chat", "host/egress", "host/fault", "host/instrument", "host/internal/jsondoc", "host/llm", "host/nested", "host/plugin/guestprofile", "host/plugin/hostfunc", "host/plugin/internal/...", "host/plugin/permission", "host/usage"},
		"the sandbox turns a module into host's interfaces and must not reach stores or models"},
	{"host/plugin/internal/abi", []string{"host", "host/chat", "host/fault", "host/internal/jsondoc", "host/llm", "host/plugin/internal/callmeter", "host/plugin/internal/guesttext", "host/plugin/internal/refusal", "host/plugin/permission"},
		"the contract is bytes in and values out: who runs guests and who grants is elsewhere"},
	{"host/plugin/internal/artifactio", []string{"host", "host/chat", "host/plugin/internal/abi", "host/plugin/internal/callmeter", "host/plugin/internal/guesttext", "host/plugin/internal/rawbytes"},
		"requests in, responses out: a call has the artifacts, and its caller knows who may"},
	{"host/plugin/internal/breaker", []string{"host/fault"},
		"whether a plugin is called follows from verdicts: who judges knows why a call failed"},
	{"host/plugin/internal/callmeter", []string{"host", "host/fault", "host/plugin/internal/fairsched"},
		"fuel, a deadline and a budget go in and a call ends in time: the meter knows no engine and no module"},
	{"host/plugin/internal/extism", []string{"host", "host/fault", "host/internal/jsondoc", "host/plugin/internal/callmeter", "host/plugin/internal/fairsched", "host/plugin/internal/linearmem"},
		"another calling convention over the same calls: it knows their meter and memory, and no engine and no plugin"},
	{"host/plugin/internal/fairsched", nil,
		"which call runs next is decided without knowing what calls do"},
	{"host/plugin/internal/gobuild", []string{"host/fault"},
		"a directory in, a module out: what completes the module is its caller's"},
	{"host/plugin/internal/guestmodule", []string{"host/plugin/internal/abi", "host/plugin/internal/extism", "host/plugin/internal/guesttext", "host/plugin/internal/refusal", "host/plugin/internal/wasmmeter"},
		"a module is judged by its imports and exports, before an engine has it"},
	{"host/plugin/internal/guesttext", nil,
		"text in, text fit to be shown out"},
	{"host/plugin/internal/instancepool", []string{"host/fault", "host/plugin/internal/callmeter"},
		"which call runs and which instance stays follows from counts and times: what an instance is, its owner knows"},
	{"host/plugin/internal/linearmem", []string{"host/fault", "host/plugin/internal/fairsched"},
		"memory is counted by flow; the package knows no engine and no guest"},
	{"host/plugin/internal/modulecache", []string{"host/fault", "host/plugin/internal/wasmmeter"},
		"modules and code are kept on disk without an engine: the caller compiles"},
	{"host/plugin/internal/rawbytes", []string{"host", "host/internal/jsondoc", "host/plugin/internal/abi"},
		"bytes and the JSON beside them in, either form out: it knows no guest and runs no operation"},
	{"host/plugin/internal/refusal", []string{"host/fault"},
		"why a file is not accepted is said in one way, whatever the file is"},
	{"host/plugin/internal/trapstack", []string{"host/plugin/internal/guesttext"},
		"a trap's text in, names of functions out: it knows no engine and no plugin"},
	{"host/plugin/internal/usagereport", []string{"host", "host/plugin/internal/wasmmeter"},
		"calls are counted by names and costs, without knowing what calls do"},
	{"host/plugin/internal/wasienv", []string{"host/plugin/internal/callmeter", "host/plugin/internal/guesttext"},
		"clocks, random bytes and output for a guest: the host of the call grants and logs"},
	{"host/plugin/internal/wasmmeter", []string{"host/plugin/internal/refusal"},
		"a module goes in and a metered one comes out: the pass knows no engine, no plugin and no tenant"},
	{"host/plugin/internal/wasmtest", nil,
		"modules for tests are written by code of their own, so that no reader is tested against itself"},
	{"host/plugin/guestprofile", []string{"host/plugin/internal/guesttext", "host/plugin/internal/trapstack", "internal/termtext"},
		"functions and numbers in, sums and a picture out: it knows no engine, no meter and no plugin"},
	{"host/plugin/guestprofile/pprofile", []string{"host/plugin/guestprofile"},
		"one format of profiles; who does not want it does not link it"},
	{"host/plugin/hostfunc", []string{"host/fault", "host/internal/foreign", "host/internal/jsondoc", "host/llm", "host/plugin/permission"},
		"the program's functions are run by name; who may call them is decided by the sandbox"},
	{"host/plugin/permission", []string{"host/egress", "host/plugin/internal/guesttext"},
		"what two sets of rights allow together is known without a plugin; requests are held to it elsewhere"},
	{"host/plugin/plugintest", []string{"host", "host/chat", "host/fault", "host/kv", "host/llm", "host/nested", "host/plugin", "host/plugin/pluginkv", "host/queue", "pdk"},
		"the kit for plugins in any language, which holds them to the vectors of pdk; their keys and jobs are kept in memory"},
	{"host/plugin/extismsdk", []string{"host", "host/fault", "host/plugin"},
		"a second engine for trusted plugins; whoever does not want it does not link it"},
	{"host/plugin/pluginkv", []string{"host", "host/internal/kverror", "host/kv", "host/plugin"},
		"what plugins keep is records over the one driver interface; the sandbox knows no driver"},
	{"host/plugin/library", []string{"host", "host/chat", "host/fault", "host/internal/changerow", "host/internal/kverror", "host/internal/modulekv", "host/kv", "host/plugin"},
		"uploaded plugins are records over the one driver interface; it asks for tenants' grants by an interface of its own"},
	{"host/plugin/signature", []string{"host/fault"},
		"keys, bytes and signatures: it knows no plugin and no registry"},
	{"host/plugin/share", []string{"host/egress", "host/fault", "host/plugin/signature"},
		"bytes in registries and folders, fetched through the guard of requests: it knows no sandbox and no project"},
	{"host/plugin/sigstore", []string{"host/fault", "host/plugin/share"},
		"a bundle and a digest in, who signed out: whoever does not want the library of sigstore does not link it"},
	{"internal/sigstoretest", nil,
		"an instance of sigstore that signs for tests; it knows no verifier of ours"},
	{"internal/watch", []string{"host/fault"},
		"the one place that looks for changed files, for the command and for directories of plugins"},
	{"host/plugin/watch", []string{"host", "host/plugin", "internal/watch"},
		"follows files; whoever does not want that does not link it"},
	{"internal/osprocess", nil,
		"how programs are started, so that their processes end together and see no secrets: for MCP servers and build commands"},
	{"internal/termtext", nil,
		"text in, text out: every hint and every command writes names the same way"},
	{"internal/longtest", nil,
		"how much work tests do is decided in one place, for every package's tests"},
	{"internal/testnode", []string{"internal/longtest"},
		"programs of Node.js for tests are installed in one way"},
	{"internal/testuser", nil,
		"a user without rights, for tests of any package"},
	{"internal/testchild", nil,
		"processes that tests start and kill, for tests of any package"},
	{"internal/testcode", nil,
		"tests of any package share the plugins that they have compiled"},
	{"internal/testdir", nil,
		"where test programs keep their files, for tests of any package"},
	{"internal/testhost", []string{"host"},
		"hosts and agents of tests, for tests of any package but their own kit"},
	{"internal/testguest", nil,
		"plugins for tests, byte by byte: good ones, and bad ones that no compiler writes"},
	{"host/datadir", []string{"host", "host/cluster", "host/erasure", "host/fault", "host/keys", "host/kv", "host/kv/badgerkv", "host/kv/kvcopy", "host/kv/pgkv", "host/kv/sockkv", "host/queue", "host/responses", "host/runs", "host/threads", "host/trace", "internal/termtext"},
		"opens all that lies in a data directory or a database, for a wired host and for commands without one; it knows no configuration"},
	{"internal/grantwords", []string{"host/plugin", "host/plugin/permission", "internal/termtext"},
		"one way to write a permission, in configurations and on the command line"},
	{"host/project", []string{"host/...", "plugins/...", "internal/...", "pdk/js"},
		"the one place below the command that knows every package and wires them"},
	{"host/project/internal/buildcmd", []string{"host/fault", "internal/osprocess", "internal/termtext"},
		"a command in, what to fix out: it knows no plugin and no configuration"},
	{"host/project/internal/kitsource", []string{"host/fault", "host/project/internal/buildcmd"},
		"a directory in, the command that builds it out: it reads no module"},
	{"host/project/internal/configfile", []string{"host", "host/anthropicmodel", "host/builtin", "host/codemode", "host/fault", "host/geminimodel", "host/llm", "host/mcpbridge/mcpclient", "host/memory", "host/plugin", "host/plugin/extismsdk", "host/redismessages", "host/scriptedmodel", "host/threads", "host/usage", "internal/grantwords", "internal/termtext"},
		"reads and checks a file; it knows what can be configured and opens nothing"},
	{"host/builtin", []string{"host", "host/chat", "host/llm", "host/plugin", "pdk/go/pdk", "plugins/..."},
		"the one place below the command where the shipped plugins and the host meet: natively, or in the sandbox"},
	{"host/codemode", []string{"host", "host/fault", "host/internal/jsondoc", "host/llm", "host/plugin", "internal/schematypes", "pdk/js"},
		"the code of a model runs as a plugin and calls tools as any tool does: it knows no model and no project"},
	{"host/erasure", []string{"host", "host/internal/kverror", "host/kv"},
		"deletes tenants from a store and from parts that it knows by an interface"},
	{"host/trace", []string{"host", "host/internal/defaults", "host/kv", "host/llm", "host/runevent"},
		"keeps what runs did, in files; whoever does not want that does not link it"},
	{"host/internal/kverror", []string{"host/fault", "host/kv"},
		"one table from a driver's errors to the domain's codes"},
	{"host/internal/changerow", []string{"host/kv"},
		"one way in which hosts follow each other's changes of records: what the records are is the caller's"},
	{"host/internal/modulekv", []string{"host/fault", "host/kv"},
		"one form of modules in a store, for those of configurations and those that are uploaded: nothing runs them here"},
	{"host/internal/words", []string{"host/fault"},
		"one way to cut text into words, for everything that is searched"},
	{"host/memory", []string{"host", "host/internal/cache", "host/internal/kverror", "host/internal/words", "host/kv", "host/llm"},
		"what agents remember is records over the one driver interface, like conversations"},
	{"host/mcpbridge/mcpclient", []string{"host", "host/chat", "host/egress", "host/fault", "host/instrument", "host/internal/defaults", "host/llm", "internal/osprocess"},
		"a foreign server's tools for agents: it knows no store, no plugin and no project"},
	{"host/mem0memory", []string{"host", "host/fault", "host/memory"},
		"another place for memories, behind the interface that tools and providers use"},
	{"host/internal/chattest", []string{"host/chat"},
		"the tests of processors, in host and below it, share a shorthand for conversations"},
	{"host/internal/filedamage", []string{"internal/longtest"},
		"a kit for tests: it damages files without knowing what is in them"},
	{"host/internal/cache", nil,
		"one way to keep a bounded number of values: what they mean, and whose they are, is in the caller's keys"},
	{"host/internal/defaults", nil,
		"one way to fill in options"},
	{"host/internal/retry", nil,
		"one way to space attempts, for queues and models alike"},
	{"host/cluster", []string{"host/fault", "host/internal/defaults", "host/internal/kverror", "host/kv"},
		"which processes live follows from records in the store: it knows nothing of their work"},
	{"host/queue", []string{"host", "host/cluster", "host/fault", "host/internal/defaults", "host/internal/kverror", "host/internal/retry", "host/kv"},
		"work left for later is records over the one driver interface, like conversations"},
	{"host/threads", []string{"host", "host/chat", "host/fault", "host/internal/cache", "host/internal/kverror", "host/kv", "host/llm", "host/reduce", "host/threads/internal/..."},
		"conversations are records over the one driver interface, never over one database"},
	{"host/threads/search", []string{"host", "host/internal/kverror", "host/internal/words", "host/kv", "host/threads", "host/threads/internal/wordindex"},
		"reads the index that the store writes, and asks the store who shows what it found"},
	{"host/threads/internal/wordindex", []string{"host", "host/internal/words", "host/kv"},
		"which words a message has is text in, bytes out: the store writes them and the search reads them"},
	{"host/threads/transfer", []string{"host", "host/chat", "host/fault", "host/threads", "host/threads/internal/stateblob"},
		"forms of other programs: it reads and writes threads as any package does"},
	{"host/threads/internal/stateblob", []string{"host/fault"},
		"the form of states, which the store keeps and exported threads have"},
	{"host/threads/internal/idgroup", nil,
		"ids in, bytes out: where an entry lies and what a record says, the store knows"},
	{"host/threads/internal/savedthread", []string{"host", "host/chat", "host/internal/kverror", "host/kv", "host/threads/internal/tenantkv"},
		"bytes in, the same bytes out: they belong to no thread of the store"},
	{"host/threads/internal/tenantkv", []string{"host/fault", "host/kv"},
		"records and their versions are the same whatever they are of"},
	{"host/threads/internal/threadtest", []string{"host", "host/chat", "host/kv", "host/threads", "host/threads/transfer"},
		"the tests of the packages around a store of threads share their conversations"},
	{"host/threads/internal/turnqueue", []string{"host/fault", "host/kv"},
		"who has a thread next follows from tickets; what a point of a thread is, the store knows"},
	{"host/threads/internal/view", nil,
		"which parts of which logs a head shows is arithmetic on positions: it reads and stores nothing"},
	{"host/sessions", []string{"host", "host/chat", "host/cluster", "host/fault", "host/internal/jsondoc", "host/internal/kverror", "host/kv", "host/runevent", "host/stream", "host/threads"},
		"what clients hold of a conversation: threads and streams, put together"},
	{"host/reduce", []string{"host", "host/instrument", "host/internal/cache", "host/internal/defaults", "host/llm"},
		"shortening a conversation needs the conversation and nothing that keeps it"},
	{"host/redismessages", []string{"host", "host/chat", "host/fault", "host/internal/defaults"},
		"message stores over one database, as anybody's would be: they know host's interfaces and nothing else"},
	{"host/stream", []string{"host", "host/chat", "host/fault", "host/internal/jsondoc", "host/llm", "host/runevent"},
		"it writes down events, whoever they are for"},
	{"host/responses", []string{"host", "host/chat", "host/internal/kverror", "host/kv"},
		"records over the one driver interface: it knows no run and no protocol"},
	{"host/runs", []string{"host", "host/chat", "host/cluster", "host/fault", "host/internal/defaults", "host/internal/kverror", "host/kv", "host/runevent", "host/runlog"},
		"live runs are found by id and read by many, on any host of a store: it starts what the host runs"},
	{"host/idempotency", []string{"host", "host/internal/defaults", "host/internal/kverror", "host/kv"},
		"keys and requests in, known or not out: it knows nothing of what is served"},
	{"host/httpapi", []string{"host", "host/audit", "host/chat", "host/erasure", "host/fault", "host/httpapi/internal/openaiwire", "host/idempotency", "host/internal/defaults", "host/internal/jsondoc", "host/internal/schema", "host/keys", "host/llm", "host/memory", "host/plugin", "host/plugin/library", "host/responses", "host/runevent", "host/runs", "host/sessions", "host/stream", "host/tenants", "host/threads", "host/threads/search", "host/threads/transfer", "host/usage"},
		"routes over parts that each work without it: it wires none of them and keeps nothing"},
	{"host/audit", []string{"host/fault", "host/internal/kverror", "host/kv"},
		"a chain of records over the one driver interface: who writes them, and of what, is elsewhere"},
	{"host/keys", []string{"host", "host/chat", "host/fault", "host/internal/cache", "host/internal/defaults", "host/internal/kverror", "host/kv"},
		"who a credential names is records over the one driver interface; what it may do is elsewhere"},
	{"host/keys/oidc", []string{"host", "host/chat", "host/fault", "host/keys"},
		"tokens of another issuer, apart, so that a program without one does not link it"},
	{"host/mcpbridge/mcpserver", []string{"host", "host/chat", "host/fault", "host/internal/defaults", "host/internal/jsondoc", "host/llm", "host/runevent", "host/runs", "host/stream", "host/threads"},
		"an encoder of runs for clients of MCP: it knows no credentials and no HTTP routes but its own"},
	{"host/tenants", []string{"host", "host/chat", "host/fault", "host/instrument", "host/internal/changerow", "host/internal/kverror", "host/kv", "host/plugin", "host/runs", "host/threads", "host/usage"},
		"a plan is the one place that every part of a host is set from: it knows the parts by their settings alone"},
	{"host/metrics", []string{"host", "host/llm", "host/plugin", "host/runevent"},
		"sums the events of runs, and reads what a runtime of plugins has used: one writer for both"},
	{"host/usage", []string{"host", "host/fault", "host/instrument", "host/internal/kverror", "host/kv", "host/llm"},
		"what tenants use is records over the one driver interface; who uses it is elsewhere"},
	{"host/modelhttp", []string{"host/chat", "host/fault", "host/internal/retry", "host/llm"},
		"what every model behind HTTP needs: retries, silences, faults; no protocol of its own"},
	{"host/internal/modeltest", []string{"host/chat", "host/fault", "host/llm", "host/modelhttp", "internal/longtest"},
		"the tests of models share a question and the servers that answer it; no protocol is known"},
	{"host/openaimodel", []string{"host/chat", "host/fault", "host/llm", "host/modelhttp"},
		"one way to ask a model; knows nothing of who asks"},
	{"host/anthropicmodel", []string{"host/chat", "host/fault", "host/internal/jsondoc", "host/llm", "host/modelhttp"},
		"another way to ask a model; knows nothing of who asks"},
	{"host/responsesmodel", []string{"host/chat", "host/fault", "host/llm", "host/modelhttp"},
		"OpenAI's other protocol; knows nothing of who asks"},
	{"host/geminimodel", []string{"host/chat", "host/fault", "host/llm", "host/modelhttp"},
		"Google's protocol; knows nothing of who asks"},
	{"host/bedrock", []string{"host/fault"},
		"signs requests, whatever model sends them: it knows no protocol"},
	{"host/scriptedmodel", []string{"host", "internal/toolschema"},
		"the model that needs no key; knows nothing of who asks, and nothing of English"},
	{"internal/demomodel", []string{"host/scriptedmodel", "internal/toolschema"},
		"guesses from the words of a request, for demos: a script asks it where no rule matches"},
	{"internal/toolschema", nil,
		"the parameters of a tool, as far as they help to make arguments"},
	{"internal/schematypes", []string{"host/fault"},
		"a schema in, declarations out: who asks for types, and of what, is elsewhere"},
	{"internal/completiontest", nil,
		"the tests of scripts and of what answers behind them ask a handler in one way"},
	{"pdk", nil,
		"hands out the kits as files; it runs none of them"},
	{"pdk/js", nil,
		"a script goes in and a plugin comes out; it shares with the host what every kit does"},
	{"pdk/go", []string{"pdk/go/..."},
		"host and guest share no Go code: what they share is the contract and its vectors"},
	{"plugins", []string{"pdk/go/..."},
		"a shipped plugin is built like anybody else's, so it can use nothing that others cannot"},
	{"examples", []string{"host/...", "pdk/go/..."},
		"an example shows the public packages; it may not lean on the command"},
	{"examples/chat", []string{"examples/postgreshistory", "host/...", "plugins/..."},
		"a whole program: it may take its history from the example of one"},
	{"examples/postgreshistory", []string{"host", "host/chat", "host/fault"},
		"a history adapter over one database, as anybody's would be: it knows host's interfaces and nothing else"},
	{"cmd/agenthost", []string{"host", "cmd/agenthost/internal/..."},
		"wires the commands to the terminal, and knows nothing of what they do"},
	{"cmd/agenthost/internal/childcompiler", []string{"host", "host/fault", "host/plugin"},
		"a module in, code out, in another process; it knows no command"},
	{"cmd/agenthost/internal/cli", []string{"cmd/agenthost/internal/cli/ui", "host", "host/datadir", "host/fault", "host/project", "host/threads", "internal/termtext"},
		"the rules of every command line: it knows no command"},
	{"cmd/agenthost/internal/cli/control", []string{"cmd/agenthost/internal/cli", "host", "host/chat", "host/fault", "host/httpapi", "host/keys", "internal/termtext"},
		"carries requests to a running host in the form of its HTTP API, and knows none of them"},
	{"cmd/agenthost/internal/cli/files", []string{"host", "host/datadir", "host/plugin", "cmd/agenthost/internal/cli"},
		"bytes in, bytes out: what a file is for is the command's business"},
	{"cmd/agenthost/internal/cli/lookup", []string{"cmd/agenthost/internal/cli/ui", "host", "host/threads", "internal/termtext"},
		"finds ids in stores; it prints nothing"},
	{"cmd/agenthost/internal/cli/open", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/ui", "examples", "host", "host/audit", "host/datadir", "host/kv", "host/plugin", "host/plugin/sigstore", "host/project", "host/tenants", "host/trace", "internal/termtext"},
		"every command opens the same things in the same way"},
	{"cmd/agenthost/internal/cli/threadcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/lookup", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/datadir", "host/fault", "host/sessions", "host/threads", "host/threads/...", "host/trace", "internal/termtext"},
		"conversations are read and changed without a host"},
	{"cmd/agenthost/internal/cli/datacmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "examples/postgreshistory", "host", "host/audit", "host/chat", "host/datadir", "host/erasure", "host/fault", "host/kv", "host/kv/badgerkv", "host/kv/kvcopy", "host/project", "host/tenants", "host/threads", "host/threads/transfer", "internal/termtext"},
		"works on a data directory, or asks the host that has it open"},
	{"cmd/agenthost/internal/cli/keycmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/datadir", "host/httpapi", "host/keys", "internal/termtext"},
		"makes and ends the credentials that a server asks for"},
	{"cmd/agenthost/internal/cli/usagecmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host/datadir", "host/project", "host/tenants", "host/usage", "internal/termtext"},
		"the usage of tenants, from a store or from the host that has it"},
	{"cmd/agenthost/internal/cli/auditcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host/audit", "host/datadir", "internal/termtext"},
		"the audit log of a store, for operators"},
	{"cmd/agenthost/internal/cli/tenantcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/datacmd", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/audit", "host/datadir", "host/keys", "host/memory", "host/plugin/library", "host/project", "host/tenants", "host/threads", "host/usage", "internal/termtext"},
		"changes the records that a host follows"},
	{"cmd/agenthost/internal/cli/queuecmd", []string{"host/datadir", "host/plugin", "host/queue", "internal/termtext", "cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/ui", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/lookup"},
		"shows jobs and runs none"},
	{"cmd/agenthost/internal/cli/tracecmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/datadir", "host/fault", "host/trace", "internal/termtext"},
		"reads the files of finished runs"},
	{"cmd/agenthost/internal/cli/tokenscmd", []string{"host/datadir", "host/tokens", "internal/termtext", "cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/ui"},
		"text in, a number out"},
	{"cmd/agenthost/internal/cli/doctorcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/datadir", "host/fault", "host/kv", "host/project", "internal/termtext"},
		"looks at what a host would need and starts none; it asks a running one"},
	{"cmd/agenthost/internal/cli/helpcmd", []string{"host", "host/anthropicmodel", "host/datadir", "host/egress", "host/geminimodel", "host/openaimodel", "host/project", "cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/lineedit"},
		"tables for people, of names that other packages read"},
	{"cmd/agenthost/internal/cli/plugincmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/plugincmd/bench", "cmd/agenthost/internal/cli/ui", "host", "host/chat", "host/datadir", "host/fault", "host/llm", "host/plugin", "host/plugin/guestprofile/...", "host/plugin/pluginkv", "host/plugin/plugintest", "host/plugin/share", "host/plugin/signature", "host/plugin/sigstore", "host/project", "host/tokens", "internal/grantwords", "internal/schematypes", "internal/termtext", "pdk/js"},
		"both ends of the operations on plugins: the command, and the handlers of a host"},
	{"cmd/agenthost/internal/cli/plugincmd/bench", []string{"host"},
		"calls in, times out: it knows no plugin and no output"},
	{"cmd/agenthost/internal/cli/processorscmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/chat", "host/datadir", "host/fault", "host/llm", "host/plugin", "host/project", "host/scriptedmodel", "host/tokens", "internal/grantwords", "internal/termtext"},
		"tries a chain and stores nothing"},
	{"cmd/agenthost/internal/cli/mcpcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui", "host", "host/mcpbridge/mcpclient", "host/mcpbridge/mcpserver", "host/project"},
		"a project for one client on pipes, and the servers that a project uses with their lock"},
	{"cmd/agenthost/internal/cli/runcmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/datacmd", "cmd/agenthost/internal/cli/lookup", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/files", "cmd/agenthost/internal/cli/plugincmd", "cmd/agenthost/internal/cli/sessioncmd", "cmd/agenthost/internal/cli/talk", "cmd/agenthost/internal/cli/ui", "cmd/agenthost/internal/cli/usagecmd", "host", "host/datadir", "host/httpapi", "host/keys", "host/keys/oidc", "host/metrics", "host/plugin", "host/project", "host/runevent", "host/threads", "host/threads/transfer", "internal/termtext"},
		"a host: it serves what the commands below ask of it"},
	{"cmd/agenthost/internal/cli/projectcmd", []string{"host", "host/fault", "host/project", "internal/termtext", "pdk", "cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/open", "cmd/agenthost/internal/cli/ui"},
		"writes files and opens no project"},
	{"cmd/agenthost/internal/cli/projectcmd/templates", []string{"pdk/go/..."},
		"a template's plugin is built like any other plugin"},
	{"cmd/agenthost/internal/cli/sessioncmd", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/control", "cmd/agenthost/internal/cli/lookup", "cmd/agenthost/internal/cli/talk", "cmd/agenthost/internal/cli/ui", "host", "host/project", "host/runevent", "host/sessions", "host/stream", "internal/termtext"},
		"both ends of the operations on sessions: the client's command and the host's handlers"},
	{"cmd/agenthost/internal/cli/lineedit", []string{"cmd/agenthost/internal/cli/ui"},
		"keys come in and lines go out: it knows nothing of what is said"},
	{"cmd/agenthost/internal/cli/talk", []string{"cmd/agenthost/internal/cli", "cmd/agenthost/internal/cli/ui", "host", "host/llm", "host/runevent", "host/trace", "internal/termtext"},
		"a conversation is held in one way, whoever the other side is"},
	{"cmd/agenthost/internal/cli/ui", []string{"host", "host/kv", "host/plugin", "host/runevent", "host/trace", "internal/termtext"},
		"values in, text out: how a command shows something does not depend on the command"},
}

// fences says which directory may import a third-party module (with "..." at the end
// everything below it too; a second directory stands behind a space): the module can
// then be judged, faked and replaced in one place. Tests and kits are exempt.
var fences = map[string]struct{ dir, why string }{
	"github.com/google/uuid":                   {"host/chat", "ids are made in one place"},
	"github.com/google/jsonschema-go":          {"host/internal/schema", "infers tools' schemas from Go types"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"host/internal/schema", "checks arguments against schemas"},
	"github.com/tetratelabs/wazero":            {"host/plugin", "runs WebAssembly"},
	"github.com/extism/go-sdk":                 {"host/plugin/extismsdk", "second engine for trusted Extism plugins"},
	"github.com/extism/go-pdk":                 {"examples/extism/go", "the kit of the other way in, shown once"},
	"aead.dev/minisign":                        {"host/plugin/signature", "signs and verifies in the files of minisign"},
	"github.com/sigstore/sigstore-go":          {"host/plugin/sigstore", "verifies bundles of sigstore"},
	"oras.land/oras-go/v2":                     {"host/plugin/share", "speaks to registries of OCI artifacts, and reads their layout folders"},
	"github.com/opencontainers/image-spec":     {"host/plugin/share", "the types of manifests, which oras-go takes and gives"},
	"github.com/opencontainers/go-digest":      {"host/plugin/share", "digests, which oras-go takes and gives"},
	"github.com/google/pprof":                  {"host/plugin/guestprofile/pprofile", "writes profiles that go tool pprof opens"},
	"github.com/coreos/go-oidc/v3":             {"host/keys/oidc", "verifies tokens of identity providers"},
	"github.com/dgraph-io/badger/v4":           {"host/kv/badgerkv", "the embedded database"},
	"github.com/klauspost/compress":            {"host/kv/badgerkv", "blocks of the embedded database's tables, which it compresses with the same package"},
	"github.com/jackc/pgx/v5":                  {"host/kv/pgkv examples/postgreshistory", "speaks to PostgreSQL: the driver, and an adapter that shows how to write one"},
	"github.com/redis/go-redis/v9":             {"host/redismessages", "speaks to Redis"},
	"github.com/aws/aws-sdk-go-v2":             {"host/bedrock", "signs requests to Amazon Bedrock"},
	"github.com/sashabaranov/go-openai":        {"host/openaimodel", "speaks to OpenAI-compatible servers"},
	"github.com/spf13/cobra":                   {"cmd/agenthost/...", "the command table: the root, and a package for each command"},
	"github.com/spf13/pflag":                   {"cmd/agenthost/internal/cli/open", "the sets of flags of cobra's commands"},
	"github.com/goccy/go-yaml":                 {"host/project/internal/configfile", "reads configuration, with line numbers"},
	"github.com/modelcontextprotocol/go-sdk":   {"host/mcpbridge/...", "speaks the Model Context Protocol, to clients and to servers"},
	"go.opentelemetry.io/otel":                 {"host/otelhost", "makes spans and metrics of OpenTelemetry"},
	"github.com/prometheus/client_golang":      {"host/metrics", "writes metrics as Prometheus reads them"},
	"github.com/kljensen/snowball":             {"host/internal/words", "stems words"},
	"github.com/reeflective/readline":          {"cmd/agenthost/internal/cli/lineedit", "edits the lines of a conversation"},
	"github.com/rivo/uniseg":                   {"cmd/agenthost/internal/cli/ui", "knows how wide characters are"},
	"golang.org/x/term":                        {"cmd/agenthost", "tells a terminal from a pipe"},
	"golang.org/x/sys":                         {"cmd/agenthost/internal/childcompiler", "the files that a compiling process inherits"},
}

func TestImportsGoDownTheTable(t *testing.T) {
	for dir, imports := range packages(t) {
		row, ok := layerOf(dir)
		if !ok {
			t.Errorf("%s has no row in the import table of host/layers_test.go; add one with its reason", dir)
			continue
		}
		for _, imp := range imports {
			target, ours := strings.CutPrefix(imp, modulePath+"/")
			if !ours || target == dir || allowed(row.imports, target) || withinOwnPlugin(dir, target) {
				continue
			}
			t.Errorf("%s imports %s, which its row does not allow: %s", dir, target, row.why)
		}
	}
}

func TestThirdPartyModulesAreFenced(t *testing.T) {
	for dir, imports := range packages(t) {
		if strings.HasSuffix(path.Base(dir), "test") {
			continue // a kit is test code
		}
		for _, imp := range imports {
			if !strings.Contains(strings.Split(imp, "/")[0], ".") || strings.HasPrefix(imp, modulePath) {
				continue
			}
			module, ok := fenceOf(imp)
			if !ok {
				t.Errorf("%s imports %s, whose module has no row in the fence table of host/layers_test.go", dir, imp)
				continue
			}
			if want := fences[module]; !allowed(strings.Fields(want.dir), dir) {
				t.Errorf("%s imports %s; only %s may (%s)", dir, imp, want.dir, want.why)
			}
		}
	}
}

func TestEveryRowHasAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range layers {
		if l.why == "" || seen[l.dir] {
			t.Errorf("row %q of the import table has no reason or comes twice", l.dir)
		}
		seen[l.dir] = true
	}
	for module, f := range fences {
		if f.why == "" {
			t.Errorf("row %q of the fence table has no reason", module)
		}
	}
}

// TestEveryRowHoldsSomething keeps rows from outliving what they were written for: a
// row must have a package, each of its imports an importer, each fence an import.
func TestEveryRowHoldsSomething(t *testing.T) {
	held := map[string]bool{} // rows, "row import" and modules
	for dir, imports := range packages(t) {
		row, _ := layerOf(dir)
		held[row.dir] = true
		for _, imp := range imports {
			if module, ok := fenceOf(imp); ok {
				held[module] = true
			}
			target, _ := strings.CutPrefix(imp, modulePath+"/")
			for _, a := range row.imports {
				if allowed([]string{a}, target) && target != dir {
					held[row.dir+" "+a] = true
				}
			}
		}
	}
	for _, l := range layers {
		if !held[l.dir] {
			t.Errorf("row %q of the import table has no package; remove it", l.dir)
			continue
		}
		for _, a := range l.imports {
			if !held[l.dir+" "+a] {
				t.Errorf("row %q of the import table allows %s, which nothing there imports; remove it", l.dir, a)
			}
		}
	}
	for module := range fences {
		if !held[module] {
			t.Errorf("row %q of the fence table holds a module that nothing imports; remove it", module)
		}
	}
}

// withinOwnPlugin lets a plugin's thin main import the plugin's own function.
func withinOwnPlugin(dir, target string) bool {
	for _, root := range []string{"plugins/", "examples/"} {
		if rest, ok := strings.CutPrefix(dir, root); ok {
			name, _, _ := strings.Cut(rest, "/")
			return target == root+name || strings.HasPrefix(target, root+name+"/")
		}
	}
	return false
}

func layerOf(dir string) (layer, bool) {
	for d := dir; d != "."; d = path.Dir(d) {
		if i := slices.IndexFunc(layers, func(l layer) bool { return l.dir == d }); i >= 0 {
			return layers[i], true
		}
	}
	return layer{}, false
}

func allowed(imports []string, target string) bool {
	return slices.ContainsFunc(imports, func(imp string) bool {
		root, tree := strings.CutSuffix(imp, "/...")
		return target == root || tree && strings.HasPrefix(target, root+"/")
	})
}

func fenceOf(imp string) (string, bool) {
	best := ""
	for module := range fences {
		if (imp == module || strings.HasPrefix(imp, module+"/")) && len(module) > len(best) {
			best = module
		}
	}
	return best, best != ""
}

// packages returns the imports of every package of the module, by directory,
// without those of tests. It reads files, whatever they are built for, so that
// guests and platform files count as well.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for dir, p := range parsePackages(t) {
		imports := map[string]bool{}
		for _, file := range p.files {
			for _, spec := range file.Imports {
				imp, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatalf("%s imports %s: %v", dir, spec.Path.Value, err)
				}
				imports[imp] = true
			}
		}
		out[dir] = slices.Sorted(maps.Keys(imports))
	}
	return out
}

func skipped(root, dir, name string) error {
	if dir == root {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir // a module of its own
	}
	return nil
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the working directory")
	return ""
}
