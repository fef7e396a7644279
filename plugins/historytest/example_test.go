package historytest_test

import (
	"fmt"

	"github.com/agenthost/agenthost/plugins/historytest"
)

// A conversation in a line, and what a provider would refuse of it: the second
// result answers no call.
func Example() {
	messages := historytest.Parse("u:hi | a:look search#1 | t:=search#1 | t:=fetch#2 | a:done")
	fmt.Println(len(messages), "messages,", historytest.Faults(messages), "fault")
	fmt.Println(historytest.Format(messages[:3]))
	// Output:
	// 5 messages, 1 fault
	// u:hi | a:look search#1 | t:=search#1
}
