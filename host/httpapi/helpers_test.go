package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/plugin/library"
	"github.com/agenthost/agenthost/host/sessions"
	"github.com/agenthost/agenthost/host/threads"
)

// Scenario: tests call every route. Each has an example here, with which a tenant that has
// something of everything gets a useful answer.

// example is a request of an operation. Names in braces, also in the path, are ids of the
// caller's tenant: see fill.
type example struct {
	query, body string
	headers     []string
	refused     bool // it has no useful answer under the credentials of tests
}

// examples are those of the operations of tenants, by their ids.
var examples = map[string]example{
	"health": {}, "ready": {}, "openapi": {}, "me": {}, "listTargets": {},
	"mintToken": {body: `{"thread":"{thread}","origin":"https://app.example.com","scopes":["runs:read"]}`, refused: true},

	"startRun":  {body: `{"thread":"{thread}","text":"more"}`},
	"listRuns":  {query: "thread={thread}"},
	"getRun":    {},
	"runEvents": {query: "from=0"},
	"cancelRun": {},
	"answerRun": {body: `{"answers":[{"question":"{question}","decision":"approve"}]}`},

	"listModels": {}, "getModel": {},
	"createChatCompletion": {body: `{"model":"clerk","messages":[{"role":"user","content":"more"}],"metadata":{"thread_id":"{thread}"}}`},

	"createResponse":     {body: `{"model":"clerk","input":"more","conversation":"{thread}"}`},
	"getResponse":        {},
	"cancelResponse":     {},
	"deleteResponse":     {},
	"responseInputItems": {},

	"listThreads":     {query: "limit=10"},
	"createThread":    {body: `{"id":"{thread}-new","title":"x"}`},
	"getThread":       {},
	"updateThread":    {body: `{"title":"x"}`},
	"deleteThread":    {},
	"threadMessages":  {},
	"editMessage":     {body: `{"role":"user","parts":[{"type":"text","text":"x"}]}`},
	"deleteMessage":   {},
	"rewindThread":    {body: `{"message":"{message}"}`},
	"forkThread":      {body: `{"id":"{thread}-fork"}`},
	"threadBranches":  {},
	"threadArtifacts": {},
	"getArtifact":     {},
	"artifactContent": {},
	"importThreads":   {query: "thread={thread}-import", body: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}`},
	"exportThread":    {query: "format=thread"},
	"searchMessages":  {query: "q=secret"},

	"getUsage": {}, "usageRecords": {}, "usageLimits": {},

	"sessionTurn":        {body: `{"session":"{thread}","text":"more"}`},
	"sessionSnapshot":    {body: `{"snapshot":"{snapshot}"}`},
	"sessionWait":        {body: `{"snapshot":"{snapshot}"}`},
	"sessionAbort":       {body: `{"snapshot":"{snapshot}"}`},
	"sessionDetach":      {body: `{"snapshot":"{snapshot}"}`, refused: true},
	"sessionArtifact":    {query: "session={thread}&digest={digest}"},
	"putSessionArtifact": {query: "session={thread}&name=other.txt", body: "other", headers: []string{"Content-Type", "text/plain"}},
	"sessionContent":     {query: "session={thread}&digest={digest}"},

	"memoryScopes":   {query: "user={user}"},
	"searchMemories": {query: "user={user}&q=secret"},
	"changeMemories": {query: "user={user}", body: `{"changes":[{"kind":"update","id":"{memory}","text":"changed"}]}`},
	"listMemories":   {query: "user={user}"},
	"addMemory":      {query: "user={user}", body: `{"text":"another"}`},
	"forgetMemories": {query: "user={user}"},
	"getMemory":      {query: "user={user}"},
	"updateMemory":   {query: "user={user}", body: `{"text":"changed"}`},
	"deleteMemory":   {query: "user={user}"},
	"memoryHistory":  {query: "user={user}"},

	"listPlugins":         {},
	"uploadPlugin":        {body: marked("echo", "third"), headers: []string{"Content-Type", "application/wasm"}},
	"getPlugin":           {},
	"deletePlugin":        {},
	"pluginManifest":      {},
	"pluginModule":        {},
	"deletePluginVersion": {},
	"activatePlugin":      {},
	"acceptPlugin":        {},
	"rollbackPlugin":      {},
	"deactivatePlugin":    {},
	"grantPlugin":         {body: `{"kv":"read"}`},
}

// exampleOf returns the example of an operation: a route without one fails the test.
func exampleOf(t *testing.T, id string) example {
	t.Helper()
	e, ok := examples[id]
	if !ok {
		t.Fatalf("the operation %s has no example: add it to helpers_test.go, so that the tests of every route have it", id)
	}
	return e
}

// operationsOfTenants returns the operations of the document that are not administrators'.
func operationsOfTenants(t *testing.T, s *server) []operation {
	return slices.DeleteFunc(operations(t, s), func(op operation) bool { return strings.HasPrefix(op.path, "/v1/admin") })
}

// secretOf is what only a tenant may read.
func secretOf(tenant string) string { return "secret-words-of-" + tenant }

// ids are those of what fill has made, by the names that examples have for them.
type ids map[string]string

// replace puts ids in the place of their names.
func (i ids) replace(text string) string {
	for name, id := range i {
		text = strings.ReplaceAll(text, "{"+name+"}", id)
	}
	return text
}

// of returns the ids of an operation: those of the run that waits for answers, where its path
// names a run to answer.
func (i ids) of(op operation) ids {
	own := ids{}
	for name, id := range i {
		own[name] = id
	}
	if op.id == "answerRun" {
		own["run"] = i["asked"]
	}
	return own
}

// call sends the example of an operation with ids.
func (s *server) call(credential string, op operation, e example, with ids) (status int, raw []byte, sent string) {
	s.t.Helper()
	path := with.replace(op.path)
	if e.query != "" {
		path += "?" + with.replace(e.query)
	}
	body := with.replace(e.body)
	resp, raw := s.request(credential, op.method, path, body, e.headers...)
	for name, values := range resp.Header {
		if name != "Date" {
			raw = append(raw, fmt.Sprintf("\n%s: %s", name, values)...)
		}
	}
	return resp.StatusCode, raw, path + body
}

// fill makes something of everything in a tenant, and returns the ids.
func (s *server) fill(tenant string) ids {
	s.t.Helper()
	i := ids{"target": "clerk", "thread": "thread-of-" + tenant, "memory": "memory-of-" + tenant, "user": "user-of-" + tenant, "plugin": "plugin-of-" + tenant}
	secret := secretOf(tenant)
	var run, asked httpapi.EndedRun
	s.do(tenant, "POST", "/v1/threads", fmt.Sprintf(`{"id":%q,"title":%q,"metadata":{"of":%q}}`, i["thread"], secret, secret), 201, nil)
	s.do(tenant, "POST", "/v1/runs", fmt.Sprintf(`{"thread":%q,"text":%q}`, i["thread"], "the secret is "+secret), 200, &run)
	s.do(tenant, "POST", "/v1/runs", fmt.Sprintf(`{"thread":"asked-of-%s","target":"asker","text":"pay"}`, tenant), 200, &asked)
	i["run"], i["asked"], i["question"] = run.ID, asked.ID, asked.Questions[0].ID
	var shown threads.Transcript
	s.do(tenant, "GET", "/v1/threads/"+i["thread"]+"/messages", "", 200, &shown)
	i["message"] = shown.Messages[0].ID
	var answered struct{ ID string }
	s.do(tenant, "POST", "/v1/responses", fmt.Sprintf(`{"model":"clerk","input":%q}`, "the secret is "+secret), 200, &answered)
	i["response"] = answered.ID
	put := struct{ Result sessions.Snapshot }{}
	s.do(tenant, "PUT", "/v1/sessions/clerk/artifact?session="+i["thread"]+"&name="+secret+".txt", secret, 200, &put, "Content-Type", "text/plain")
	i["digest"], i["snapshot"] = put.Result.Digest, put.Result.ID
	s.do(tenant, "POST", "/v1/memories?user="+i["user"], fmt.Sprintf(`{"id":%q,"text":%q}`, i["memory"], "a secret: "+secret), 201, nil)
	i["version"] = s.fillPlugin(tenant, "/v1/plugins/"+i["plugin"], secret)
	return i
}

// fillPlugin makes a plugin with two versions that have served, and returns the digest of the
// first.
func (s *server) fillPlugin(credential, path, mark string) string {
	s.t.Helper()
	var first, second library.Version
	s.do(credential, "POST", path+"/versions", marked("echo", mark), 201, &first)
	s.do(credential, "POST", path+"/versions", marked("echo", mark+"2"), 201, &second)
	s.do(credential, "POST", path+"/versions/"+first.Digest+"/activate", "", 200, nil)
	s.do(credential, "POST", path+"/versions/"+second.Digest+"/activate", "", 200, nil)
	return first.Digest
}
