//go:build unix

package httpapi_test

// Scenario: the same runs are asked for by the native route and by OpenAI's protocols.

import (
	"slices"
	"testing"

	"github.com/agenthost/agenthost/host/kv"
)

// openAIRounds is how often each route is measured, in turn: the median counts.
const openAIRounds = 5

// BenchmarkOpenAI starts b.N runs with a sandboxed tool and a thread of their own by each
// route, and reports the CPU of the server's process by run: of the native route, whole and as
// a stream, and the ratios to it of Chat Completions and Responses, which are stored.
func BenchmarkOpenAI(b *testing.B) {
	server, _, _ := serveClerk(b, kv.Group(kv.NewMemory()))
	const asked = `"model":"clerk","messages":[{"role":"user","content":"where is order 1042?"}]`
	const input = `"model":"clerk","input":"where is order 1042?"`
	ways := map[string]*load{
		"native":           {URL: server.URL + "/v1/runs"},
		"native-stream":    {URL: server.URL + "/v1/runs", Accept: "text/event-stream"},
		"chat":             {URL: server.URL + "/v1/chat/completions", Body: "{" + asked + "}", Threads: true},
		"chat-stream":      {URL: server.URL + "/v1/chat/completions", Body: `{"stream":true,` + asked + "}", Threads: true},
		"responses":        {URL: server.URL + "/v1/responses", Body: "{" + input + "}"},
		"responses-stream": {URL: server.URL + "/v1/responses", Body: `{"stream":true,` + input + "}"},
	}
	spent := map[string][]float64{}
	b.ResetTimer()
	for range openAIRounds {
		for name, way := range ways {
			way.Requests = max(b.N, loadClients)
			_, used := loaded(b, way)
			spent[name] = append(spent[name], used)
		}
	}
	b.StopTimer()
	median := func(name string) float64 {
		slices.Sort(spent[name])
		return spent[name][openAIRounds/2]
	}
	b.ReportMetric(median("native"), "native-us/run")
	b.ReportMetric(median("native-stream"), "native-stream-us/run")
	for _, name := range []string{"chat", "responses"} {
		b.ReportMetric(median(name)/median("native"), name+"-ratio")
		b.ReportMetric(median(name+"-stream")/median("native-stream"), name+"-stream-ratio")
	}
}
