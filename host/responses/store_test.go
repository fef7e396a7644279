package responses_test

import (
	"encoding/json"
	"fmt"
	"strings"
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
	if last, err := s.Last(t.Context(), "acme", "t1"); err != nil || last != "resp_3" {
		t.Errorf("the last response is %q, %v", last, err)
	}
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
	if last, err := s.Last(t.Context(), "acme", "t1"); err != nil || last != "" {
		t.Errorf("the last response is %q, %v", last, err)
	}
}
