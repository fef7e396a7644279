package share_test

import (
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
)

func TestReferencesAreReadAndWritten(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]share.Reference{
		"oci://ghcr.io/acme/orders:1.2.0":           {Registry: "ghcr.io", Repository: "acme/orders", Tag: "1.2.0"},
		"oci://localhost:5000/orders":               {Registry: "localhost:5000", Repository: "orders", Tag: "latest"},
		"oci://localhost:5000/orders@" + digest:     {Registry: "localhost:5000", Repository: "orders", Digest: digest},
		"oci://ghcr.io/acme/orders:1@" + digest:     {Registry: "ghcr.io", Repository: "acme/orders", Tag: "1", Digest: digest},
		"oci-layout:./dist:1.2.0":                   {Dir: "./dist", Tag: "1.2.0"},
		"oci-layout:/srv/dist":                      {Dir: "/srv/dist", Tag: "latest"},
		"oci-layout:/srv/with:colon/dist@" + digest: {Dir: "/srv/with:colon/dist", Digest: digest},
	} {
		got, err := share.ParseReference(text)
		if err != nil || got != want {
			t.Errorf("ParseReference(%q) = %+v, %v; want %+v", text, got, err, want)
			continue
		}
		if again, err := share.ParseReference(got.String()); err != nil || again != got {
			t.Errorf("ParseReference of %q, which String wrote, = %+v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "orders.wasm", "oci://", "oci://ghcr.io", "oci://ghcr.io/", "oci://ghcr.io/Acme/orders", "oci://ghcr.io/acme/../orders",
		"oci://user@ghcr.io/acme/orders:1", "oci://ghcr.io/acme/orders@sha256:12", "oci://ghcr.io/acme/orders@md5:" + strings.Repeat("0", 32),
		"oci://ghcr.io/acme/orders:" + strings.Repeat("t", 129), "oci://ghcr.io/acme/orders: 1", "oci://a b/c", "oci-layout:", "oci-layout::1", "https://ghcr.io/acme/orders"} {
		if got, err := share.ParseReference(text); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ParseReference(%q) = %+v, %v; want code invalid_argument", text, got, err)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add("oci://ghcr.io/acme/orders:1.2.0")
	f.Add("oci-layout:a:b@sha256:00")
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := share.ParseReference(text)
		if err != nil {
			return
		}
		if again, err := share.ParseReference(ref.String()); err != nil || again != ref {
			t.Errorf("ParseReference(%q) = %+v, and of what it writes %+v, %v", text, ref, again, err)
		}
	})
}
