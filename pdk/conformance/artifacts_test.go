package conformance

// Scenario: the kits of C and AssemblyScript carry artifacts in pieces.

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/agenthost/agenthost/internal/longtest"
)

// Both have a tool that writes an artifact of so many bytes, reads it again, and says how many
// came back, how many of these are right, and of which type it is.
var carriers = []struct{ kit, name, source string }{
	{"c", "carry.c", `
#include "agenthost.h"
static void carry(ah_call *c) {
  uint32_t size = (uint32_t)ah_get_int(c, c->arguments, "size"), right = 0;
  char *data = ah_alloc(c, size);
  for (uint32_t i = 0; i < size; i++) data[i] = (char)(i % 251);
  ah_text name = ah_c("plan");
  ah_text digest = ah_artifact_write(c, name, "application/x-plan", (ah_text){data, size});
  ah_file file = ah_artifact_read(c, name);
  for (uint32_t i = 0; i < file.data.size; i++) right += file.data.at[i] == data[i];
  ah_return(c, AH_JSON({"size": %l, "right": %l, "type": %t, "digest": %l}), (int64_t)file.data.size, (int64_t)right, file.media_type, (int64_t)digest.size);
}
AH_PLUGIN(.name = "carry", .version = "1.0.0",
  .tools = (const ah_tool[]){{.name = "carry", .description = "Carries an artifact.", .run = carry, .parameters = AH_JSON({"type": "object"})}, {0}});
`},
	{"assemblyscript", "carry.ts", `
import { Call, Obj, plugin, readArtifact, tool, writeArtifact } from "./agenthost";
export * from "./agenthost/exports";
plugin("carry", "1.0.0");
tool("carry", "Carries an artifact.", '{"type":"object"}', (call: Call): void => {
  const data = new Uint8Array(<i32>call.int("size"));
  for (let i = 0; i < data.length; i++) data[i] = <u8>(i % 251);
  const digest = writeArtifact("plan", "application/x-plan", data.buffer), file = readArtifact("plan");
  if (digest === null || file === null) return;
  const read = Uint8Array.wrap(file.data);
  let right = 0;
  for (let i = 0; i < read.length; i++) right += read[i] == data[i] ? 1 : 0;
  call.json(new Obj().int("size", read.length).int("right", right).string("type", file.mediaType).int("digest", digest.length).toJson());
});
`},
}

func TestKitsCarryArtifactsInPieces(t *testing.T) {
	longtest.Need(t, "compilers of other languages take seconds")
	for _, c := range carriers {
		t.Run(c.kit, func(t *testing.T) {
			dir := t.TempDir()
			kit, err := filepath.Abs("../assemblyscript/agenthost") // C's is found beside build.sh
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(kit, filepath.Join(dir, "agenthost")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(dir, "carry.wasm")
			run(t, c.kit, "kit=$PWD; cd "+dir+" && $kit/build.sh "+c.name+" carry.wasm")
			wasm, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			p := load(t, wasm)
			for size, want := range map[string]string{
				"0":      `{"size":0,"right":0,"type":"application/x-plan","digest":71}`,
				"196608": `{"size":196608,"right":196608,"type":"application/x-plan","digest":71}`,
				"700001": `{"size":700001,"right":700001,"type":"application/x-plan","digest":71}`,
			} {
				got, err := p.Call(t.Context(), "acme", "tool", []byte(`{"tool":"carry","arguments":{"size":`+size+`}}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				if content := decoded(t, string(got.Output)).(object)["content"]; !reflect.DeepEqual(content, decoded(t, want)) {
					t.Errorf("an artifact of %s bytes: %s, want %s", size, got.Output, want)
				}
			}
		})
	}
}
