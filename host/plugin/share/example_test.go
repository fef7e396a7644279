package share_test

import (
	"context"
	"fmt"
	"os"

	"github.com/agenthost/agenthost/host/plugin/share"
)

// A layout folder is a registry in files: a plugin pushed to one is pulled in the same
// way.
func Example() {
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	client, err := share.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ref, err := share.ParseReference("oci-layout:" + dir + ":1.2.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	digest, err := client.Push(context.Background(), ref, &share.Artifact{Module: []byte("\x00asm\x01\x00\x00\x00")})
	if err != nil {
		fmt.Println(err)
		return
	}
	artifact, err := client.Pull(context.Background(), ref.At(digest))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(artifact.Form, len(artifact.Module), digest)
	// Output: plugin 8 sha256:bd776dd95fc03ffebb8381945a5767b50d5f11c87cadc9f943a69556c12590de
}
