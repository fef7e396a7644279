package runevent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/runevent"
)

// An error of a driver is masked before an event leaves the process.
func ExampleEvent_ForClient() {
	cause := errors.New("dial tcp 10.0.3.7:5432: connection refused")
	e := runevent.Event{Seq: 7, Time: time.Unix(0, 0).UTC(), Run: "r1", Data: &runevent.RunFinished{
		FinishReason: "failed", Error: fault.Errorf(fault.Unavailable, "load the thread: %w", cause)}}
	raw, err := json.Marshal(e.ForClient())
	if err != nil {
		panic(err)
	}
	var back runevent.Event
	if err := json.Unmarshal(raw, &back); err != nil {
		panic(err)
	}
	fmt.Println(back.Seq, back.Data.Type(), back.Data.(*runevent.RunFinished).Error)
	// Output: 7 run.finished internal error (run r1)
}
