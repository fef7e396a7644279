package httpapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/httpapi/internal/openaiwire"
	"github.com/agenthost/agenthost/host/internal/schema"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/stream"
	"github.com/agenthost/agenthost/host/tenants"
)

// written are the schemas of types that write their JSON themselves.
var written = map[reflect.Type]json.RawMessage{
	reflect.TypeFor[host.Message](): json.RawMessage(`{"type":"object","description":"one entry of a conversation","required":["role","parts"],"properties":{
		"id":{"type":"string"},"role":{"type":"string","enum":["system","user","assistant","tool"]},"agent":{"type":"string"},
		"parts":{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":{"type":"string","description":"text, reasoning, tool_call, tool_result, media, data, or one that this version does not know"}},"additionalProperties":true}},
		"created_at":{"type":"string","format":"date-time"},"metadata":{"type":"object","additionalProperties":true}},"additionalProperties":true}`),
	reflect.TypeFor[tenants.Plan](): json.RawMessage(`{"type":"object","description":"what a tenant may use; an absent member bounds nothing","properties":{
		"targets":{"type":"array","items":{"type":"string"},"description":"the networks and agents that it may run"},
		"models":{"type":"array","items":{"type":"string"},"description":"the models that its runs may ask"},
		"plugins":{"type":"object","additionalProperties":{"type":"object","additionalProperties":true},"description":"the plugins that it has, by id, each with its grants"},
		"usage":{"type":"object","description":"its budgets and its rate","properties":{"window":{"type":"string"},
			"limits":{"type":"array","items":{"type":"object","required":["resource"],"properties":{"resource":{"type":"string"},"amount":{"type":"integer"},"window":{"type":"string","description":"such as 1m or month"}},"additionalProperties":false}},
			"max_output":{"type":"integer"},"rate":{"type":"integer"},"burst":{"type":"integer"},"max_wait":{"type":"string"}},"additionalProperties":false},
		"sandbox":{"type":"object","additionalProperties":{"type":["integer","string"]},"description":"limits of calls of plugins, such as instructions"},
		"run":{"type":"object","additionalProperties":{"type":["integer","string"]},"description":"limits of a run, such as run_timeout"},
		"retention":{"type":"object","description":"the threads that are kept","properties":{"max_age":{"type":"string"},"max_threads":{"type":"integer"},"max_bytes":{"type":"integer"}},"additionalProperties":false}},"additionalProperties":false}`),
	reflect.TypeFor[host.Artifact](): json.RawMessage(`{"type":"object","description":"a result beside the conversation","required":["parts"],"properties":{
		"name":{"type":"string"},"parts":{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":{"type":"string"}},"additionalProperties":true}},
		"metadata":{"type":"object","additionalProperties":true}},"additionalProperties":true}`),
	reflect.TypeFor[plugin.Permissions](): json.RawMessage(`{"type":"object","description":"what a plugin may do beyond computing; an absent member is nothing","properties":{
		"http":{"type":"array","items":{"type":"object","required":["host"],"properties":{"scheme":{"type":"string"},"host":{"type":"string"},"port":{"type":"integer"},"methods":{"type":"array","items":{"type":"string"}},"addresses":{"type":"array","items":{"type":"string"}}},"additionalProperties":false},"description":"the servers that it may ask"},
		"kv":{"type":"string","enum":["none","read","write"]},"state":{"type":"string","enum":["none","read","write"]},
		"secrets":{"type":"array","items":{"type":"object","required":["name","hosts"],"properties":{"name":{"type":"string"},"hosts":{"type":"array","items":{"type":"string"}}},"additionalProperties":false}},"model":{"type":"boolean"},"messages":{"type":"boolean"},
		"queue":{"type":"boolean"},"clock":{"type":"boolean"},"random":{"type":"boolean"},
		"operations":{"type":"array","items":{"type":"string"},"description":"operations of the program that embeds the host"},
		"tools":{"type":"array","items":{"type":"string"},"description":"tools of the agent at work that it may call"}},"additionalProperties":false}`),
	reflect.TypeFor[sessions.Session](): json.RawMessage(`{"type":"object","description":"a whole session, as clients may see it or keep it","properties":{
		"version":{"type":"integer"},"kind":{"type":"string"},"session":{"type":"string"},"agent":{"type":"string"},"custom":{},
		"messages":{"type":"array","items":{"type":"object","additionalProperties":true}},"first":{"type":"integer"},
		"artifacts":{"type":"array","items":{"type":"object","additionalProperties":true}},"waiting":{"type":"string"}},"additionalProperties":true}`),
	reflect.TypeFor[openaiwire.ChatRequest](): json.RawMessage(`{"type":"object","description":"a chat completion of OpenAI's API; members that are not named here are ignored","required":["model","messages"],"properties":{
		"model":{"type":"string","description":"the name of a network or agent"},
		"messages":{"type":"array","items":{"type":"object","required":["role"],"properties":{"role":{"type":"string","enum":["system","developer","user","assistant","tool"]},"content":{}},"additionalProperties":true}},
		"metadata":{"type":"object","additionalProperties":{"type":"string"},"description":"thread_id is the conversation, if the host keeps it"},
		"stream":{"type":"boolean"},"stream_options":{"type":"object","properties":{"include_usage":{"type":"boolean"}},"additionalProperties":true},
		"tools":{"type":"array","items":{"type":"object","additionalProperties":true},"description":"functions that the client executes"},"tool_choice":{},"parallel_tool_calls":{"type":"boolean"},
		"response_format":{"type":"object","required":["type"],"properties":{"type":{"type":"string","enum":["text","json_object","json_schema"]}},"additionalProperties":true},
		"temperature":{"type":"number"},"max_tokens":{"type":"integer"},"max_completion_tokens":{"type":"integer"}},"additionalProperties":true}`),
	reflect.TypeFor[stream.ChatCompletion](): json.RawMessage(`{"type":"object","description":"a chat completion of OpenAI's API, with the run beside it","required":["id","object","created","model","choices"],"properties":{
		"id":{"type":"string"},"object":{"type":"string"},"created":{"type":"integer"},"model":{"type":"string"},
		"choices":{"type":"array","items":{"type":"object","required":["index","message","finish_reason"],"properties":{"index":{"type":"integer"},"message":{"type":"object","additionalProperties":true},"finish_reason":{"type":"string"}},"additionalProperties":true}},
		"usage":{"type":"object","additionalProperties":true},
		"agenthost":{"type":"object","properties":{"run":{"type":"string"},"thread":{"type":"string"}},"additionalProperties":true}},"additionalProperties":true}`),
	reflect.TypeFor[openaiwire.ResponseRequest](): json.RawMessage(`{"type":"object","description":"a response of OpenAI's API; members that are not named here are ignored","required":["model","input"],"properties":{
		"model":{"type":"string","description":"the name of a network or agent"},"input":{"description":"a text, or a list of items"},"instructions":{"type":"string"},
		"previous_response_id":{"type":"string"},"conversation":{"description":"an id, or an object with one"},"store":{"type":"boolean"},"background":{"type":"boolean"},"stream":{"type":"boolean"},
		"tools":{"type":"array","items":{"type":"object","additionalProperties":true},"description":"functions that the client executes"},"tool_choice":{},"parallel_tool_calls":{"type":"boolean"},
		"text":{"type":"object","additionalProperties":true},"metadata":{"type":"object","additionalProperties":{"type":"string"}},
		"temperature":{"type":"number"},"top_p":{"type":"number"},"max_output_tokens":{"type":"integer"},"truncation":{"type":"string","enum":["auto","disabled"]}},"additionalProperties":true}`),
	reflect.TypeFor[stream.Response](): json.RawMessage(`{"type":"object","description":"a response of OpenAI's API, with the run beside it","required":["id","object","created_at","status","model","output"],"properties":{
		"id":{"type":"string"},"object":{"type":"string"},"created_at":{"type":"integer"},"status":{"type":"string","enum":["queued","in_progress","completed","incomplete","failed","cancelled"]},"model":{"type":"string"},
		"output":{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":{"type":"string"},"id":{"type":"string"}},"additionalProperties":true}},
		"usage":{},"agenthost":{"type":"object","properties":{"run":{"type":"string"},"thread":{"type":"string"}},"additionalProperties":true}},"additionalProperties":true}`),
	reflect.TypeFor[fault.Error](): json.RawMessage(`{"type":"object","description":"an error with a code","required":["code","message"],"properties":{
		"code":{"type":"string"},"message":{"type":"string"},"hint":{"type":"string"},"retryable":{"type":"boolean"},"limit":{"type":"string"}},"additionalProperties":true}`),
}

// renamed are the names of types that say too little apart from their packages.
var renamed = map[reflect.Type]string{reflect.TypeFor[plugin.Permissions](): "Permissions"}

// components collects the schemas of a document's types by name.
type components struct {
	refs    map[reflect.Type]json.RawMessage
	names   map[reflect.Type]string
	schemas map[string]json.RawMessage
}

// add makes sure that a type and the structs within it are components.
func (cs *components) add(t reflect.Type) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || cs.names[t] != "" || !strings.HasPrefix(t.PkgPath(), modulePath) {
		return nil
	}
	name := cmp.Or(renamed[t], t.Name())
	if cs.schemas[name] != nil { // of another package
		pkg := path.Base(t.PkgPath())
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	cs.names[t], cs.schemas[name] = name, json.RawMessage(`{}`)
	cs.refs[t] = json.RawMessage(`{"$ref":"#/components/schemas/` + name + `"}`)
	if raw := written[t]; raw != nil {
		cs.schemas[name] = raw
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" {
			if err := cs.add(f.Type); err != nil {
				return err
			}
		}
	}
	parts := maps.Clone(cs.refs)
	delete(parts, t)
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous { // its fields are t's
			delete(parts, f.Type)
		}
	}
	raw, err := schema.InferParts(t, parts)
	if err != nil {
		return host.Errorf(host.Internal, "schema of %s: %w", t, err)
	}
	if string(raw) == "true" { // a type that writes its JSON itself
		raw = json.RawMessage(`{}`)
	}
	cs.schemas[name] = raw
	return nil
}

const modulePath = "github.com/agenthost/agenthost"

// ref returns the reference to the schema of a value's type.
func (cs *components) ref(v any) (json.RawMessage, error) {
	t := reflect.TypeOf(v)
	err := cs.add(t)
	return cs.refs[t], err
}

type object = map[string]any

// openAPI returns the document of the routes. It panics if one has a type without a
// schema: types of routes are those of this package.
func (a *API) openAPI() json.RawMessage {
	document, err := a.describeRoutes()
	if err != nil {
		panic(err)
	}
	return document
}

func (a *API) describeRoutes() (json.RawMessage, error) {
	cs := &components{refs: map[reflect.Type]json.RawMessage{reflect.TypeFor[tenants.Duration](): json.RawMessage(`{"type":"string"}`)}, names: map[reflect.Type]string{}, schemas: map[string]json.RawMessage{}}
	problem, err := cs.ref(Problem{})
	if err != nil {
		return nil, err
	}
	paths := map[string]object{}
	for _, r := range a.routes {
		op, err := r.operation(cs, problem)
		if err != nil {
			return nil, err
		}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = op
	}
	groups := map[string]bool{}
	for _, r := range a.routes {
		groups[r.group] = true
	}
	tags := []object{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		tags = append(tags, object{"name": name, "description": groupTexts[name]})
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{"title": "agenthost", "version": "1", "description": "Runs networks of LLM agents and keeps their conversations. Each request acts for the tenant of its credential.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"servers":  []object{{"url": "/"}},
		"tags":     tags,
		"paths":    paths,
		"security": []object{{"key": []string{}}},
		"components": object{
			"schemas":         cs.schemas,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer", "description": "an API key, a browser token or a JWT"}},
		},
	})
}

// groupTexts say what the routes of a group do.
var groupTexts = map[string]string{
	"host":     "The process and the caller.",
	"openai":   "Networks and agents as models of OpenAI's API.",
	"runs":     "Runs of networks and agents.",
	"threads":  "Conversations.",
	"sessions": "Conversations as sessions with snapshots. Errors are {\"error\":{...}}.",
	"usage":    "What the tenant has used.",
	"memory":   "What agents remember across conversations. The tenant is always part of the scope.",
	"plugins":  "The tenant's own plugins, as sandboxed WebAssembly modules.",
	"mcp":      "The Model Context Protocol. Errors are those of JSON-RPC.",
	"admin":    "Tenants, keys, the audit log and the data, for administrators.",
}

// operation returns the description of a route.
func (r *route) operation(cs *components, problem json.RawMessage) (object, error) {
	op := object{"operationId": r.id, "tags": []string{r.group}, "summary": r.summary}
	if r.scope == "" && !r.any {
		op["security"] = []object{}
	}
	if r.scope != "" {
		op["description"] = "Scope: " + r.scope + "."
	}
	if params := r.parameters(); len(params) > 0 {
		op["parameters"] = params
	}
	if r.body != nil {
		ref, err := cs.ref(r.body)
		if err != nil {
			return nil, err
		}
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": ref}}}
	}
	if r.takes != "" {
		op["requestBody"] = object{"required": true, "content": object{r.takes: object{"schema": object{"type": "string", "format": "binary"}}}}
	}
	answer := object{"description": http.StatusText(r.status)}
	content := object{}
	if r.answer != nil {
		ref, err := cs.ref(r.answer)
		if err != nil {
			return nil, err
		}
		content["application/json"] = object{"schema": ref}
	}
	if r.raw != "" {
		content[r.raw] = object{"schema": object{}}
	}
	if r.stream && r.answer != nil {
		content["text/event-stream"] = object{"schema": object{"type": "string"}}
		content["application/x-ndjson"] = object{"schema": object{"type": "string"}}
	}
	if len(content) > 0 {
		answer["content"] = content
	}
	op["responses"] = object{
		strconv.Itoa(r.status): answer,
		"4XX":                  object{"description": "The request is refused.", "content": object{"application/problem+json": object{"schema": problem}}},
		"5XX":                  object{"description": "The host failed.", "content": object{"application/problem+json": object{"schema": problem}}},
	}
	return op, nil
}

func (r *route) parameters() (list []object) {
	for _, name := range r.pathNames() {
		list = append(list, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string", "maxLength": maxIDBytes}})
	}
	for _, p := range r.query {
		list = append(list, p.object("query"))
	}
	for _, p := range r.headers {
		list = append(list, p.object("header"))
	}
	return list
}

func (p param) object(in string) object {
	s := object{"type": p.kind}
	if p.values != nil {
		s["enum"] = p.values
	}
	return object{"name": p.name, "in": in, "description": p.doc, "schema": s}
}
