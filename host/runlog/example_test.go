package runlog_test

import (
	"fmt"
	"time"

	"github.com/agenthost/agenthost/host/runlog"
)

// A journal that keeps questions finds a waiting run by the key of one of its
// questions, or by the time at which one expires.
func ExampleWaitingFilter_Takes() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expires := now.Add(time.Hour)
	asks := []runlog.Asked{{ID: "q1", Key: "order-1042", Expires: &expires}, {ID: "q2"}}
	fmt.Println(runlog.WaitingFilter{Key: "order-1042"}.Takes(asks))
	fmt.Println(runlog.WaitingFilter{Key: "order-7"}.Takes(asks))
	fmt.Println(runlog.WaitingFilter{Due: now}.Takes(asks))
	fmt.Println(runlog.WaitingFilter{Due: expires}.Takes(asks))
	// Output:
	// true
	// false
	// false
	// true
}
