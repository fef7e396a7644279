//go:build unix

package httpapi_test

// Scenario: 64 clients in a process of their own start runs with one sandboxed tool call
// each, over JSON and over server-sent events; what the server's process spends is
// compared with the same runs by Host.Run, and with a route that writes the same bytes.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/httpapi"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/responses"
	"github.com/agenthost/agenthost/host/runs"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testguest"
	"github.com/agenthost/agenthost/internal/testhost"
)

// The load of [BenchmarkLoad].
const (
	loadClients = 64
	loadEnv     = "AGENTHOST_TEST_LOAD_CHILD"
)

// load is what the child process is to do, and loadResult what it has measured.
type (
	load struct {
		URL, Accept string
		Body        string // default: a run of the native route
		Threads     bool   // each request names a thread of its own
		Requests    int
		Open        bool // streams, and keep them
	}
	loadResult struct {
		Seconds  float64
		P50, P99 float64 // milliseconds
		Failed   int64
		Last     string  // a failed answer
		Client   float64 // microseconds of CPU that the child spent on each request
	}
)

// TestLoadChildProcess is not a test but what the child process runs.
func TestLoadChildProcess(t *testing.T) {
	text := os.Getenv(loadEnv)
	if text == "" {
		t.Skip("runs only as a child of the benchmark that starts it")
	}
	var l load
	noError(t, json.Unmarshal([]byte(text), &l))
	if l.Open {
		l.open()
		os.Exit(0)
	}
	noError(t, json.NewEncoder(os.Stdout).Encode(l.run()))
	os.Exit(0)
}

func (l *load) run() *loadResult {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadClients}}
	var next, failed atomic.Int64
	var last atomic.Value
	times := make([]time.Duration, l.Requests)
	began := time.Now()
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(l.Requests) {
					return
				}
				at := time.Now()
				if got, ok := l.ask(client); !ok {
					failed.Add(1)
					last.Store(got)
				}
				times[i] = time.Since(at)
			}
		})
	}
	clients.Wait()
	r := &loadResult{Seconds: time.Since(began).Seconds(), Failed: failed.Load()}
	r.Last, _ = last.Load().(string)
	slices.Sort(times)
	r.P50, r.P99 = times[len(times)/2].Seconds()*1000, times[len(times)*99/100].Seconds()*1000
	return r
}

func (l *load) ask(client *http.Client) (got string, ok bool) {
	req, err := http.NewRequest("POST", l.URL, strings.NewReader(cmp.Or(l.Body, `{"text":"where is order 1042?"}`)))
	if err != nil {
		return err.Error(), false
	}
	req.Header.Set("Authorization", "Bearer acme")
	req.Header.Set("Content-Type", "application/json")
	if l.Threads {
		req.Header.Set("X-Thread-Id", host.NewID())
	}
	if l.Accept != "" {
		req.Header.Set("Accept", l.Accept)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error(), false
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(raw), err), err == nil && resp.StatusCode == 200 && bytes.Contains(raw, []byte("shipped."))
}

// loaded has a load made by a child process, and returns what it measured and the
// microseconds of CPU that this process spent on each request.
func loaded(b *testing.B, l *load) (*loadResult, float64) {
	b.Helper()
	text, err := json.Marshal(l)
	noError(b, err)
	child := exec.Command(os.Args[0], "-test.run=^TestLoadChildProcess$")
	child.Env = append(os.Environ(), loadEnv+"="+string(text))
	child.Stderr = os.Stderr
	before := cpu(b)
	out, err := child.Output()
	spent := cpu(b) - before
	noError(b, err)
	var r loadResult
	noError(b, json.Unmarshal(out, &r))
	if r.Failed > 0 {
		b.Fatalf("%d of %d requests failed, the last with %s", r.Failed, l.Requests, r.Last)
	}
	r.Client = float64((child.ProcessState.UserTime() + child.ProcessState.SystemTime()).Microseconds()) / float64(l.Requests)
	return &r, float64(spent.Microseconds()) / float64(l.Requests)
}

// cpu is the time that this process has spent on CPUs.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	noError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// shipModel calls the tool t once, and then says that the order is shipped.
type shipModel struct{}

func (shipModel) Name() string { return "load" }

func (shipModel) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		used := host.Usage{InputTokens: 10, OutputTokens: 5}
		if req.Messages[len(req.Messages)-1].Role != host.ToolRole {
			yield(llm.Chunk{Response: &llm.Response{FinishReason: chat.FinishToolCalls, Usage: used,
				Parts: []host.Part{&host.ToolCall{ID: "c1", Name: "t", Arguments: json.RawMessage(`{"amount":1042}`)}}}}, nil)
			return
		}
		for _, text := range []string{"It ", "is ", "shipped."} {
			if !yield(llm.Chunk{Text: text}, nil) {
				return
			}
		}
		yield(llm.Chunk{Response: &llm.Response{FinishReason: chat.FinishStop, Usage: used, Parts: []host.Part{&host.Text{Text: "It is shipped."}}}}, nil)
	}
}

// BenchmarkLoad starts b.N runs each way. Its figures are of the server's process:
//   - runs/s, p99-ms: of the clients, over JSON, and over server-sent events
//   - host-us/run: CPU of the same runs by Host.Run, 64 at a time
//   - beyond-us/run: CPU of a run over JSON beyond that
//   - client-us/run: CPU of the clients' process, which shares the machine, over JSON
//   - runs/cpu-s: runs over JSON for each second of CPU of the server's process
//   - bare-us/run: CPU of a route that writes the bytes of such a stream, a flush for
//     each frame; sse-ratio: the CPU of a run over SSE beyond Host.Run, to that
//
// Use -benchtime 20000x: with fewer runs the child's start counts.
func BenchmarkLoad(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchLoad(b, kv.Group(kv.NewMemory())) })
	b.Run("badger", func(b *testing.B) {
		store, err := badgerkv.Open(b.TempDir(), nil)
		noError(b, err)
		b.Cleanup(func() { _ = store.Close() })
		benchLoad(b, kv.Group(store))
	})
}

// serveClerk serves an agent with a sandboxed tool over a driver until the end of a benchmark.
func serveClerk(b *testing.B, driver kv.Driver) (*httptest.Server, *host.Host, *host.Agent) {
	b.Helper()
	sandbox, err := plugin.NewRuntime(b.Context(), nil)
	noError(b, err)
	b.Cleanup(func() { noError(b, sandbox.Close(context.WithoutCancel(b.Context()))) })
	guest, err := sandbox.Load(b.Context(), "orders", testguest.Modules()["open"], nil)
	noError(b, err)
	tools, err := guest.Tools(nil)
	noError(b, err)
	clerk := testhost.NewAgent(b, "clerk", &host.AgentOptions{Instructions: "You answer questions about orders.", Tools: tools, Model: shipModel{}})
	h := testhost.New(b, &host.Options{History: testhost.NewHistory(b, threads.New(driver, nil))})
	registry, err := runs.New(h, nil)
	noError(b, err)
	b.Cleanup(func() { _ = registry.Close() })
	api, err := httpapi.New(credential, &httpapi.Options{Runs: registry, Targets: targets{"clerk": clerk}, Responses: responses.New(driver)})
	noError(b, err)
	server := httptest.NewServer(api)
	b.Cleanup(server.Close)
	return server, h, clerk
}

func benchLoad(b *testing.B, driver kv.Driver) {
	server, h, clerk := serveClerk(b, driver)
	request := &load{URL: server.URL + "/v1/runs", Requests: max(b.N, loadClients)}
	events := &load{URL: request.URL, Requests: request.Requests, Accept: "text/event-stream"}
	got, ok := events.ask(http.DefaultClient)
	http.DefaultClient.CloseIdleConnections()
	if !ok || strings.Contains(got, `"is_error":true`) || !strings.Contains(got, `"content":{}`) {
		b.Fatalf("the run, or its tool, answers %s", got)
	}
	bare := httptest.NewServer(bareRoute(strings.SplitAfter(strings.TrimPrefix(strings.TrimSuffix(got, "<nil>"), "200 "), "\n\n")))
	defer bare.Close()

	b.ResetTimer()
	direct := directRuns(b, h, clerk, request.Requests)
	json, jsonCPU := loaded(b, request)
	sse, sseCPU := loaded(b, events)
	b.StopTimer()
	_, bareCPU := loaded(b, &load{URL: bare.URL, Requests: request.Requests})
	b.ReportMetric(float64(request.Requests)/json.Seconds, "runs/s")
	b.ReportMetric(json.P99, "p99-ms")
	b.ReportMetric(float64(request.Requests)/sse.Seconds, "sse-runs/s")
	b.ReportMetric(sse.P99, "sse-p99-ms")
	b.ReportMetric(direct, "host-us/run")
	b.ReportMetric(jsonCPU-direct, "beyond-us/run")
	b.ReportMetric(json.Client, "client-us/run")
	b.ReportMetric(1e6/jsonCPU, "runs/cpu-s")
	b.ReportMetric(bareCPU, "bare-us/run")
	b.ReportMetric((sseCPU-direct)/bareCPU, "sse-ratio")
}

// directRuns returns the microseconds of CPU that a run by Host.Run takes.
func directRuns(b *testing.B, h *host.Host, target host.Target, n int) float64 {
	before := cpu(b)
	var next atomic.Int64
	var callers sync.WaitGroup
	for range loadClients {
		callers.Go(func() {
			for next.Add(1) <= int64(n) {
				if _, err := h.Run(b.Context(), target, &host.Request{Tenant: "acme", Text: "where is order 1042?"}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	return float64((cpu(b) - before).Microseconds()) / float64(n)
}

// bareRoute reads the body and writes the frames of a stream, each when it comes.
func bareRoute(frames []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		for _, frame := range frames {
			_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(w, frame)
			_ = control.Flush()
		}
	})
}

func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkOpenStreams opens 2,000 streams of one run that says nothing, from a process
// of its own, and reports what each takes of this process's heap and stacks.
func BenchmarkOpenStreams(b *testing.B) {
	const streams = 2000
	driver := kv.NewMemory()
	store := threads.New(driver, nil)
	h := testhost.New(b, &host.Options{Journal: store})
	begun := make(chan struct{}, 1)
	silent := testhost.NewAgent(b, "silent", &host.AgentOptions{Model: silentModel{begun}})
	for b.Loop() {
		registry, err := runs.New(h, nil)
		noError(b, err)
		api, err := httpapi.New(credential, &httpapi.Options{Runs: registry, Targets: targets{"clerk": silent}})
		noError(b, err)
		server := httptest.NewServer(api)
		run, err := registry.Start(b.Context(), silent, &host.Request{Tenant: "acme", Text: "wait"}, nil)
		noError(b, err)
		<-begun
		before := inUse()
		text, err := json.Marshal(&load{URL: server.URL + "/v1/runs/" + run.ID + "/events", Requests: streams, Open: true})
		noError(b, err)
		child := exec.Command(os.Args[0], "-test.run=^TestLoadChildProcess$")
		child.Env, child.Stderr = append(os.Environ(), loadEnv+"="+string(text)), os.Stderr
		leave, err := child.StdinPipe()
		noError(b, err)
		out, err := child.StdoutPipe()
		noError(b, err)
		noError(b, child.Start())
		var r loadResult
		noError(b, json.NewDecoder(out).Decode(&r))
		if r.Failed > 0 {
			b.Fatalf("%d of %d streams are not open: %s", r.Failed, streams, r.Last)
		}
		b.ReportMetric(float64(inUse()-before)/(1<<20), "MiB")
		noError(b, leave.Close())
		noError(b, child.Wait())
		_, err = registry.Cancel(b.Context(), "acme", run.ID)
		noError(b, err)
		server.Close()
		registry.Close()
	}
}

// inUse returns the bytes of heap and stacks in use after a collection.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// silentModel says that it was asked, and answers when its run is canceled.
type silentModel struct{ begun chan<- struct{} }

func (silentModel) Name() string { return "silent" }

func (m silentModel) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.begun <- struct{}{}
		<-ctx.Done()
		yield(llm.Chunk{}, ctx.Err())
	}
}

// open opens all streams, reads the first event of each, and keeps them until stdin ends.
func (l *load) open() {
	var r loadResult
	transport := &http.Transport{}
	for range l.Requests {
		req, err := http.NewRequest("GET", l.URL, nil)
		if err == nil {
			req.Header.Set("Authorization", "Bearer acme")
			var resp *http.Response
			if resp, err = transport.RoundTrip(req); err == nil {
				_, err = resp.Body.Read(make([]byte, 1))
			}
		}
		if err != nil {
			r.Failed, r.Last = r.Failed+1, err.Error()
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(&r)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
