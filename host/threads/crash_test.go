package threads_test

// Scenario: a child process runs durable runs on a Badger directory and is killed again
// and again; every run ends, no committed step runs twice, and no message is lost or
// doubled.

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/testchild"
)

// A child process runs durable runs on a Badger directory and is killed; the
// next one goes on. What its tools and models do is written to a file outside,
// which no crash takes back.

const (
	crashDir   = "AGENTHOST_CRASH_DIR"
	crashRuns  = "AGENTHOST_CRASH_RUNS"
	crashLimit = "AGENTHOST_CRASH_LIMIT" // after how many things the child is killed
)

// crashSlack is how much more a child does until it is killed: with a parent that stands
// still meanwhile, there would be nothing left to kill.
const crashSlack = 5

// world is what happens outside: of the six steps of a run, three answers and three
// calls.
type world struct {
	mu   sync.Mutex
	file *os.File
	left int // things that may happen; without end if it is negative
}

// happens writes down that something has happened, and returns its number.
func (w *world) happens(thread, what string) string {
	nonce := host.NewID()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		select {} // until it is killed
	}
	w.left--
	if _, err := fmt.Fprintf(w.file, "%s %s %s\n", thread, what, nonce); err != nil {
		panic(err)
	}
	fmt.Println(what) // the parent counts
	return nonce
}

// crashModel answers what the conversation asks for next.
type crashModel struct{ w *world }

func (crashModel) Name() string { return "crash" }

func (m crashModel) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	results := 0
	for _, msg := range req.Messages {
		results += len(msg.ToolResults())
	}
	call := func(id, tool string) host.Part {
		return &host.ToolCall{ID: id, Name: tool, Arguments: json.RawMessage(`{}`)}
	}
	said := &host.Text{Text: m.w.happens(req.Scope.Thread, fmt.Sprint("answer", results))}
	parts := map[int][]host.Part{
		0: {said, call("a", "charge"), call("b", "look")},
		2: {said, call("c", "note")},
		3: {said},
	}[results]
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Response: &llm.Response{Parts: parts, FinishReason: chat.FinishStop}}, nil)
	}
}

// crashChild runs until every run has ended, or somebody kills it.
func crashChild(dir string) error {
	n, err := strconv.Atoi(os.Getenv(crashRuns))
	if err != nil {
		return err
	}
	may := -1
	if limit := os.Getenv(crashLimit); limit != "" {
		if may, err = strconv.Atoi(limit); err != nil {
			return err
		}
		may += crashSlack
	}
	file, err := os.OpenFile(filepath.Join(dir, "world"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	d, err := badgerkv.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		return err
	}
	c := &crasher{store: threads.New(d, nil), w: &world{file: file, left: may}, open: map[string]*host.RunRecord{}}
	if err := c.build(); err != nil {
		return err
	}
	left, err := c.store.For("").Runs(context.Background())
	if err != nil {
		return err
	}
	for _, r := range left {
		c.open[r.Thread] = r
	}
	return c.all(n)
}

// crasher is what a child has.
type crasher struct {
	store *threads.Store
	w     *world
	host  *host.Host
	agent *host.Agent
	open  map[string]*host.RunRecord // by thread
}

func (c *crasher) build() error {
	tool := func(name string, opts *host.ToolOptions) *host.Tool {
		return host.NewTool(name, name, func(_ context.Context, call *host.Call, _ struct{}) (string, error) {
			return c.w.happens(call.Scope.Thread, call.ID), nil
		}, opts)
	}
	history, err := host.NewHistory(c.store, nil)
	if err != nil {
		return err
	}
	if c.host, err = host.New(&host.Options{SingleTenant: true, History: history, Model: crashModel{c.w}}); err != nil {
		return err
	}
	c.agent, err = host.NewAgent("clerk", &host.AgentOptions{Tools: []*host.Tool{
		tool("charge", nil), tool("look", &host.ToolOptions{ReadOnly: true}), tool("note", &host.ToolOptions{Idempotent: true})}})
	return err
}

const crashWorkers = 32

func (c *crasher) all(n int) error {
	next := make(chan int)
	failed := make(chan error, crashWorkers)
	for range crashWorkers {
		go func() {
			for i := range next {
				if err := c.one(context.Background(), fmt.Sprint("t", i)); err != nil {
					failed <- fmt.Errorf("thread t%d: %w", i, err)
					return
				}
			}
			failed <- nil
		}()
	}
	for i := range n {
		select {
		case next <- i:
		case err := <-failed:
			return err
		}
	}
	close(next)
	for range crashWorkers {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

// one brings one run to its end, as a client does that got no answer: it resumes
// what there is, and sends its message again, under its id, if there is nothing.
func (c *crasher) one(ctx context.Context, thread string) error {
	var req host.Request
	if left := c.open[thread]; left != nil {
		req.Resume = left.Run
		if left.Status == host.RunInterrupted {
			questions, err := c.host.Questions(ctx, c.agent, "", left.Run)
			if err != nil {
				return err
			}
			req.Answers = itHappened(questions)
		}
	} else {
		switch info, err := c.store.For("").Thread(ctx, thread); {
		case host.CodeOf(err) == host.NotFound:
		case err != nil:
			return err
		case info.Status == threads.Completed:
			return nil
		}
		m := host.UserText("go")
		m.ID = "question of " + thread
		req = host.Request{Thread: thread, Input: m, Durable: true}
	}
	for {
		r, err := c.host.Run(ctx, c.agent, &req)
		if err != nil {
			return err
		}
		if r.FinishReason != chat.FinishInterrupted {
			return nil
		}
		req = host.Request{Resume: r.Run, Answers: itHappened(r.Questions)}
	}
}

// itHappened answers that what nobody knows about has happened.
func itHappened(questions []*host.Question) []host.Answer {
	var out []host.Answer
	for _, q := range questions {
		out = append(out, host.Answer{Question: q.ID, Decision: host.Reply, Value: json.RawMessage(`"looked up"`)})
	}
	return out
}

// Every run ends, no step that was committed runs twice, no message is lost or
// doubled, wherever the process is killed.
func TestKilledProcessesLoseAndRepeatNothing(t *testing.T) {
	runs, kills := 500, 20
	if !longtest.Enabled() {
		runs, kills = 60, 5
	}
	const steps = 6
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	began := time.Now()
	points := killPoints(rnd, kills, runs*steps)
	happened, killed := 0, 0
	for again := true; again; {
		limit := -1
		if killed < kills {
			limit = max(points[killed]-happened, 1)
		}
		var things int
		again, things = crash(t, dir, runs, limit)
		happened += things
		if again {
			killed++
		}
	}
	t.Logf("%d runs of %d steps, killed %d times, in %s", runs, steps, killed, time.Since(began).Round(time.Millisecond))
	if killed != kills {
		t.Errorf("killed %d times before all was done, want %d", killed, kills)
	}
	judge(t, dir, runs)
}

// killPoints are after how many things that happened, in all processes together,
// one is killed: anywhere but in the last tenth, where there might be nothing left
// to kill.
func killPoints(rnd *rand.Rand, kills, things int) []int {
	points := make([]int, kills)
	for i := range points {
		points[i] = 1 + rnd.IntN(things*9/10)
	}
	slices.Sort(points)
	return points
}

// crash runs a child, and kills it when it has done limit things. It reports
// whether it was killed, and how many things it has done.
func crash(t *testing.T, dir string, runs, limit int) (killed bool, things int) {
	t.Helper()
	env := []string{crashDir + "=" + dir, crashRuns + "=" + strconv.Itoa(runs)}
	if limit > 0 {
		env = append(env, crashLimit+"="+strconv.Itoa(limit))
	}
	child := testchild.Start(t, "TestMain", env...)
	for range child.Lines() {
		if things++; things == limit {
			killed = child.Cmd.Process.Kill() == nil
		}
	}
	if err := child.Wait(); err != nil && !killed {
		t.Fatalf("the child fails: %v", err)
	}
	return killed, things
}

// judge compares what is stored with what has happened.
func judge(t *testing.T, dir string, runs int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "world"))
	if err != nil {
		t.Fatal(err)
	}
	happened := map[string][]string{} // by thread and step, in order
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		happened[f[0]+" "+f[1]] = append(happened[f[0]+" "+f[1]], f[2])
	}
	s, done := openBadger(t, filepath.Join(dir, "db"))
	defer done()
	if left, err := s.For("").Runs(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("%d runs are left in the journal (%v)", len(left), err)
	}
	twice, unknown := 0, 0
	for i := range runs {
		thread := fmt.Sprint("t", i)
		stored := storedSteps(t, s, thread)
		for _, step := range []string{"answer0", "answer2", "answer3", "a", "b", "c"} {
			all := happened[thread+" "+step]
			if len(stored[step]) != 1 {
				t.Errorf("%s: step %s is stored %d times, want once", thread, step, len(stored[step]))
				continue
			}
			if len(all) > 1 {
				twice++
			}
			switch got := stored[step][0]; {
			case step == "a" && len(all) > 1:
				t.Errorf("%s: the charge happened %d times", thread, len(all))
			case step == "a" && got == "looked up":
				unknown++
			case len(all) == 0 || got != all[len(all)-1]:
				t.Errorf("%s: step %s is stored as %s and happened as %v: it was committed and ran again", thread, step, got, all)
			}
		}
	}
	t.Logf("of %d steps %d ran a second time, before the first was committed; of %d charges the outcome was unknown", 6*runs, twice, unknown)
}

// storedSteps returns what a thread says of each step.
func storedSteps(t *testing.T, s *threads.Store, thread string) map[string][]string {
	t.Helper()
	show, err := s.For("").Show(t.Context(), thread, 0)
	if err != nil {
		t.Errorf("Show(%s) = %v", thread, err)
		return nil
	}
	out := map[string][]string{}
	results := 0
	for i, m := range show.Messages {
		if (i == 0) != (m.Role == host.User) {
			t.Errorf("%s: message %d is from %s; want the user's first and once", thread, i, m.Role)
		}
		if m.Role == host.Assistant {
			step := fmt.Sprint("answer", results)
			out[step] = append(out[step], m.Text())
		}
		for _, r := range m.ToolResults() {
			results++
			out[r.ID] = append(out[r.ID], r.ContentText())
		}
	}
	if last := show.Snapshots[len(show.Snapshots)-1]; last.Status != threads.Completed {
		t.Errorf("%s ends %s", thread, last.Status)
	}
	return out
}
