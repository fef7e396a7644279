package providerstate_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/providerstate"
)

// A run that fails stores the states that it has loaded.
func Example() {
	all := providerstate.NewAll(nil)
	if err := all.Of("clerk/visits").Set(map[string]int{"visits": 1}); err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", all.JSON(false)["clerk/visits"])
	fmt.Println(len(all.JSON(true)))
	// Output:
	// {"visits":1}
	// 0
}
