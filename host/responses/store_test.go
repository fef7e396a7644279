package responses_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/responses"
)

func newStore(t *testing.T) (*responses.Store, kv.Driver) {
	t.Helper()
	driver := kv.NewMemory()
	t.Cleanup(func() { _ = driver.Close() })
	return responses.New(driver), driver
}

func record(id, thread string, bytes int) *responses.Record {
	return &responses.Record{ID: id, Thread: thread, Ended: true, Response: json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`), Input: json.RawMessage(`["hi"]`)}
}

func TestARecordIsFoundReplacedAndDeleted(t *testing.T) {
	s, _ := newStore(t)
	for _, bytes := range []int{10, 700_000, 20} { // one entry, several, and one again
		if err := s.Put(t.Context(), "acme", record("resp_1", "t1", bytes)); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(t.Context(), "acme", "resp_1"); err != nil || len(r.Response) != bytes+2 || string(r.Input) != `["hi"]` {
			t.Errorf("of %d bytes: %d, %v", bytes, len(r.Response), err)
		}
	}
	if err := s.Delete(t.Context(), "acme", "resp_1"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{s.Delete(t.Context(), "acme", "resp_1"), s.Delete(t.Context(), "acme", "")} {
		if host.CodeOf(err) != host.NotFound {
			t.Errorf("the deleted record: %v", err)
		}
	}
}

func TestARecordThatIsTooLong(t *testing.T) {
	s, _ := newStore(t)
	long := record("resp_1", "t1", 10)
	long.Input = json.RawMessage(`"` + strings.Repeat("x", responses.MaxBytes) + `"`)
	if err := s.Put(t.Context(), "acme", long); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), "acme", "resp_1"); err != nil || len(r.Input) > 0 || len(r.Response) != 12 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Put(t.Context(), "acme", record("resp_2", "t1", responses.MaxBytes)); host.CodeOf(err) != host.ResourceExhausted {
		t.Errorf("a longer one: %v", err)
	}
}

func TestARecordThatHasEndedStays(t *testing.T) {
	s, _ := newStore(t)
	begun := record("resp_1", "t1", 10)
	begun.Ended = false
	for _, r := range []*responses.Record{begun, record("resp_1", "t1", 20), begun} {
		if err := s.Put(t.Context(), "acme", r); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.Get(t.Context(), "acme", "resp_1"); err != nil || !r.Ended || len(r.Response) != 22 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheRecordsOfAThreadAreErasedWithIt(t *testing.T) {
	s, driver := newStore(t)
	for i := range 5 {
		for _, tenant := range []string{"acme", "umbrella"} {
			if err := s.Put(t.Context(), tenant, record(fmt.Sprint("resp_", i), fmt.Sprint("t", i%2), 300_000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim(t, s, "t1", "resp_3", "", true)
	if err := responses.EraseThread(t.Context(), driver, "acme", "t1"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		_, err := s.Get(t.Context(), "acme", fmt.Sprint("resp_", i))
		if erased := host.CodeOf(err) == host.NotFound; erased != (i%2 == 1) {
			t.Errorf("response %d: %v", i, err)
		}
		if _, err := s.Get(t.Context(), "umbrella", fmt.Sprint("resp_", i)); err != nil {
			t.Errorf("response %d of another tenant: %v", i, err)
		}
	}
	claim(t, s, "t1", "resp_9", "resp_8", true) // of a thread of the same name that is made later
}

func claim(t *testing.T, s *responses.Store, thread, id, after string, want bool) {
	t.Helper()
	if has, _, err := s.Claim(t.Context(), "acme", thread, id, after); err != nil || has != want {
		t.Errorf("response %s after %q has thread %s: %t, %v", id, after, thread, has, err)
	}
}

func TestOneResponseContinuesAnother(t *testing.T) {
	s, _ := newStore(t)
	claim(t, s, "t1", "b", "a", true)
	claim(t, s, "t1", "c", "a", false)
	claim(t, s, "t1", "b", "a", true) // it is asked for again
	claim(t, s, "t1", "d", "b", true)
	claim(t, s, "t1", "e", "", true)
	claim(t, s, "t1", "f", "d", false)
	claim(t, s, "t2", "c", "a", true)

	var has atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ok, _, err := s.Claim(t.Context(), "acme", "t3", fmt.Sprint("r", i), "a")
			if err != nil && host.CodeOf(err) != host.Conflict {
				t.Error(err)
			}
			if ok {
				has.Add(1)
			}
		})
	}
	if wg.Wait(); has.Load() != 1 {
		t.Errorf("%d responses have the thread", has.Load())
	}
}

func TestAResponseThatIsNotMadeGivesItsThreadBack(t *testing.T) {
	s, _ := newStore(t)
	release := func(id string) {
		t.Helper()
		if err := s.Release(t.Context(), "acme", "t1", id); err != nil {
			t.Error(err)
		}
	}
	claim(t, s, "t1", "a", "", true)
	claim(t, s, "t1", "b", "a", true)
	release("x") // which does not have it
	claim(t, s, "t1", "c", "a", false)
	release("b")
	claim(t, s, "t1", "c", "a", true)
	has, holder, err := s.Claim(t.Context(), "acme", "t1", "c-2", "a", "c", "c-2")
	if !has || holder.ID != "c" || holder.Since.IsZero() || err != nil {
		t.Errorf("the second attempt: %t, %+v, %v", has, holder, err)
	}
	release("c-2")
	claim(t, s, "t1", "d", "a", true)
	release("d")
	release("a") // the first one of all
	claim(t, s, "t1", "e", "z", true)
}

func TestWhatWasDeletedIsNotStoredAgain(t *testing.T) {
	s, driver := newStore(t)
	begun := func(id string) *responses.Record {
		r := record(id, "t1", 10)
		r.Ended = false
		return r
	}
	for name, c := range map[string]struct{ remove, store func(id string) error }{
		"a response": {
			func(id string) error { return s.Delete(t.Context(), "acme", id) },
			func(id string) error { return s.Put(t.Context(), "acme", record(id, "t1", 10)) },
		},
		"a response in the background": {
			func(id string) error { return s.Delete(t.Context(), "acme", id) },
			func(id string) error { return s.Finish(t.Context(), "acme", record(id, "t1", 10)) },
		},
		"a response of a deleted thread": {
			func(string) error { return responses.EraseThread(t.Context(), driver, "acme", "t1") },
			func(id string) error { return s.Finish(t.Context(), "acme", record(id, "t1", 10)) },
		},
		"a forgotten response": {
			func(id string) error { return s.Forget(t.Context(), "acme", id) },
			func(id string) error { return s.Finish(t.Context(), "acme", record(id, "t1", 10)) },
		},
	} {
		for _, first := range []*responses.Record{begun("resp_1"), record("resp_1", "t1", 300_000)} {
			must(t, s.Put(t.Context(), "acme", first))
			must(t, c.remove("resp_1"))
			must(t, c.store("resp_1"))
			must(t, s.Put(t.Context(), "acme", begun("resp_2"))) // another one is stored all the same
			if r, err := s.Get(t.Context(), "acme", "resp_1"); host.CodeOf(err) != host.NotFound {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
			must(t, responses.EraseThread(t.Context(), driver, "acme", "t1"))
			if page, err := driver.Scan(t.Context(), "acme", kv.Range{Limit: 10}); err != nil || len(page.Entries) > 0 {
				t.Errorf("%s: the erased thread has %v, %v", name, page.Entries, err)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
