package wasmmeter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/agenthost/agenthost/host/plugin/internal/wasmtest"
)

// meteredDigest is of what Version makes of many modules.
const meteredDigest = "322948d00662b8d87521eebe3901cf82eb3fb130672dda6614cb73bcfabda097"

// TestMeterVersion fails when prepare makes something else of a module than it
// did. Then raise Version, or hosts keep using the modules of an older one,
// and write the new digest here.
func TestMeterVersion(t *testing.T) {
	h := sha256.New()
	random := rand.New(rand.NewPCG(7, 8))
	list := [][]byte{wasmtest.Assemble(t, everything), wasmtest.Assemble(t, kernels), wasmtest.Assemble(t, wasmtest.Expand(bulkModule))}
	for range 50 {
		choices := make([]byte, 300)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		list = append(list, program(choices, false))
	}
	for _, wasm := range list {
		p, err := Prepare(wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "%x %t\n", p.Key, p.Restorable)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != meteredDigest {
		t.Errorf("version %d makes modules with the digest %s, want %s", Version, got, meteredDigest)
	}
}
