package share_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/signature"
)

// A registry that offers a signed plugin under another name replays its signature.
func TestASignatureCountsInItsRepositoryAlone(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	module := []byte("module")
	signed := func(comment string) *share.Artifact {
		t.Helper()
		sig, err := private.Sign(module, comment)
		if err != nil {
			t.Fatal(err)
		}
		return &share.Artifact{Module: module, Signatures: [][]byte{sig}}
	}
	ref := func(text string) share.Reference {
		t.Helper()
		r, err := share.ParseReference(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	orders := ref("oci://ghcr.io/acme/orders:1")
	named := signed(share.SignedComment(orders, "plugin orders 1.2.0"))
	unnamed := signed("plugin orders 1.2.0")
	both := &share.Artifact{Module: module, Signatures: append(unnamed.Signatures, named.Signatures...)}
	scope := map[string][]string{"acme": {"ghcr.io/acme/"}}
	for name, row := range map[string]struct {
		scope    map[string][]string
		place    string
		artifact *share.Artifact
		want     fault.Code
	}{
		"its repository":                            {nil, "oci://ghcr.io/acme/orders:1", named, ""},
		"another tag of it":                         {nil, "oci://ghcr.io/acme/orders:2", named, ""},
		"another repository":                        {nil, "oci://ghcr.io/acme/payments:1", named, fault.PermissionDenied},
		"another repository of the key":             {scope, "oci://ghcr.io/acme/payments:1", named, fault.PermissionDenied},
		"a repository that begins like it":          {nil, "oci://ghcr.io/acme/orders-2:1", named, fault.PermissionDenied},
		"another registry":                          {nil, "oci://evil.example/acme/orders:1", named, fault.PermissionDenied},
		"a folder":                                  {nil, "oci-layout:dist:1", named, ""},
		"no repository":                             {nil, "oci://ghcr.io/acme/orders:1", unnamed, fault.PermissionDenied},
		"no repository, beside one that has it":     {nil, "oci://ghcr.io/acme/orders:1", both, ""},
		"no repository, and the key has one":        {scope, "oci://ghcr.io/acme/orders:1", unnamed, ""},
		"no repository, and the key has another":    {scope, "oci://ghcr.io/acmex/orders:1", unnamed, fault.PermissionDenied},
		"its repository, which the key has not":     {map[string][]string{"acme": {"ghcr.io/other"}}, "oci://ghcr.io/acme/orders:1", named, fault.PermissionDenied},
		"no repository, and the key has one folder": {scope, "oci-layout:dist:1", unnamed, ""},
	} {
		p := &share.Policy{Keys: map[string]signature.PublicKey{"acme": public}, Repositories: row.scope}
		by, err := p.CheckSigned(t.Context(), ref(row.place), row.artifact)
		if fault.CodeOf(err) != row.want || (err == nil) != (by == share.Signer{Name: "acme", Who: public.String()}) {
			t.Errorf("a signature of %s: CheckSigned = %+v, %v; want code %q", name, by, err, row.want)
		}
	}
}
