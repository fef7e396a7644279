package plugin

// Scenario: the golden vectors of steps are read and written by this host.

import (
	"encoding/json"
	"testing"

	"github.com/agenthost/agenthost/host"
)

// begun is the answer to a step.begin.
type begun struct {
	Done   bool
	Result json.RawMessage
}

// stepOperations are those of a call of which no step is done.
func stepOperations(t *testing.T) *toolOperations {
	t.Helper()
	return &toolOperations{call: host.NewCall("t", nil, nil)}
}

func (o *toolOperations) begin(t *testing.T, request []byte) (begun, error) {
	t.Helper()
	raw, err := o.beginStep(t.Context(), request)
	if err != nil {
		return begun{}, err
	}
	var told begun
	if err := json.Unmarshal(raw, &told); err != nil {
		t.Fatalf("step.begin is told %s: %v", raw, err)
	}
	return told, nil
}

func TestVectorsOfStepsThatBegin(t *testing.T) {
	eachVector(t, "step.json", "step_begin_in", func(t *testing.T, v *golden) {
		told, err := stepOperations(t).begin(t, v.document())
		if sameError(t, v, err) && told.Done {
			t.Errorf("a step that nobody has done is told to be")
		}
	})
}

func TestVectorsOfStepsThatEnd(t *testing.T) {
	eachVector(t, "step.json", "step_end_in", func(t *testing.T, v *golden) {
		o := stepOperations(t)
		if told, err := o.begin(t, []byte(`{"name":"charge"}`)); err != nil || told.Done {
			t.Fatalf("step.begin = %+v, %v", told, err)
		}
		_, err := o.endStep(t.Context(), v.document())
		if !sameError(t, v, err) {
			return
		}
		told, err := o.begin(t, []byte(`{"name":"charge"}`))
		if err != nil || !told.Done {
			t.Fatalf("step.begin after it = %+v, %v", told, err)
		}
		sameJSON(t, told.Result, member(t, v.JSON, "result"))
	})
}

func TestVectorsOfWhatAStepIsTold(t *testing.T) {
	eachVector(t, "step.json", "step_begin_out", func(t *testing.T, v *golden) {
		o := stepOperations(t)
		if result := member(t, v.JSON, "result"); result != nil {
			if _, err := o.begin(t, []byte(`{"name":"a"}`)); err != nil {
				t.Fatal(err)
			}
			if _, err := o.endStep(t.Context(), []byte(`{"name":"a","result":`+string(result)+`}`)); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := o.beginStep(t.Context(), []byte(`{"name":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, raw, v.JSON)
	})
}
