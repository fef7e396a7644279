package permission_test

import (
	"fmt"

	"github.com/agenthost/agenthost/host/plugin/permission"
)

func ExampleSet_Clamp() {
	asked := permission.Set{
		State: permission.Write,
		HTTP:  []permission.HTTP{{Host: "api.example.com"}, {Host: "evil.example"}},
	}
	granted := permission.Set{
		State: permission.Read,
		HTTP:  []permission.HTTP{{Host: "*.example.com", Methods: []string{"GET"}}},
	}
	fmt.Println("granted:", asked.Clamp(granted).Words())
	fmt.Println("missing:", asked.Missing(granted))
	// Output:
	// granted: [state=read http=GET https://api.example.com:443]
	// missing: [state=write http=https://api.example.com http=https://evil.example]
}
