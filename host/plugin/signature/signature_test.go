package signature_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/signature"
)

// The public key of minisign's own releases.
const theirKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"

func TestASignatureIsOfOneModuleByOneKey(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := private.Sign([]byte("module"), "orders 1.2.0")
	if err != nil {
		t.Fatal(err)
	}
	if comment, err := public.Verify([]byte("module"), sig); err != nil || comment != "orders 1.2.0" {
		t.Errorf("Verify = %q, %v", comment, err)
	}
	for name, row := range map[string]struct {
		key    signature.PublicKey
		module string
		sig    []byte
		want   fault.Code
	}{
		"another module":   {public, "modulE", sig, fault.PermissionDenied},
		"another key":      {other, "module", sig, fault.PermissionDenied},
		"another comment":  {public, "module", bytes.Replace(sig, []byte("1.2.0"), []byte("1.2.1"), 1), fault.PermissionDenied},
		"no signature":     {public, "module", []byte("hello"), fault.InvalidArgument},
		"a long signature": {public, "module", append(bytes.Repeat([]byte("x"), signature.MaxSignatureBytes), sig...), fault.InvalidArgument},
	} {
		if _, err := row.key.Verify([]byte(row.module), row.sig); fault.CodeOf(err) != row.want {
			t.Errorf("Verify of %s = %v, want code %s", name, err, row.want)
		}
	}
}

func TestKeysAreTheFilesOfMinisign(t *testing.T) {
	public, private, err := signature.Generate()
	if err != nil {
		t.Fatal(err)
	}
	file, err := private.File("")
	if err != nil {
		t.Fatal(err)
	}
	again, err := signature.ReadPrivateKey(file, "")
	if err != nil || again.Public().String() != public.String() {
		t.Errorf("ReadPrivateKey of File: %v, %v", again.Public(), err)
	}
	for _, text := range []string{public.String(), string(public.File())} {
		if got, err := signature.ParsePublicKey(text); err != nil || got.String() != public.String() {
			t.Errorf("ParsePublicKey(%q) = %v, %v", text, got, err)
		}
	}
	if got, err := signature.ParsePublicKey("untrusted comment: minisign public key\n" + theirKey + "\n"); err != nil || got.String() != theirKey {
		t.Errorf("ParsePublicKey of minisign's own = %v, %v", got, err)
	}
	if s := fmt.Sprintf("%v %+v %#v", private, private, private); strings.Contains(s, strings.TrimSpace(strings.SplitN(string(file), "\n", 3)[1])) || !strings.Contains(s, "[private key]") {
		t.Errorf("a private key prints as %s", s)
	}
	for _, text := range []string{"", "RWQ", theirKey[1:], strings.Repeat("R", 5000)} {
		if _, err := signature.ParsePublicKey(text); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ParsePublicKey(%.20q) = %v, want code invalid_argument", text, err)
		}
		if _, err := signature.ReadPrivateKey([]byte(text), ""); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ReadPrivateKey(%.20q) = %v, want code invalid_argument", text, err)
		}
	}
}

// The key and the signature were made by minisign 0.11 of Debian, of a file with the text
// module.
func TestSignaturesOfMinisignAreVerified(t *testing.T) {
	const (
		public = "untrusted comment: minisign public key 45CE4A31029AD2BA\nRWS60poCMUrORS6BWFu5zzLEjuncgaVz3iGEurJdiatwuxE++sWU2pRR\n"
		sig    = "untrusted comment: signature from minisign secret key\n" +
			"RUS60poCMUrORbeKYrtj567opZMu0oTia5W6azjTLrVI/WkpAW6s5W6gQyaq2ZZ/bXmLriBJHQbLV8RBtaxbOePMPsawaZGpow4=\n" +
			"trusted comment: orders 1.2.0\n" +
			"sdubAbpRnz+g9ugxBn4iIMoWyDAsrLzlcWiXTVi+56YuNXZ7KD2BJkQcuWbtVHTTuf4tuGe5Urn2C7z3TpDnAw==\n"
	)
	key, err := signature.ParsePublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if comment, err := key.Verify([]byte("module"), []byte(sig)); err != nil || comment != "orders 1.2.0" {
		t.Errorf("Verify = %q, %v", comment, err)
	}
	if _, err := key.Verify([]byte("another"), []byte(sig)); fault.CodeOf(err) != fault.PermissionDenied {
		t.Errorf("Verify of another module = %v, want code permission_denied", err)
	}
}

func FuzzVerify(f *testing.F) {
	public, private, err := signature.Generate()
	if err != nil {
		f.Fatal(err)
	}
	sig, err := private.Sign([]byte("module"), "comment")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("module"), sig)
	f.Add([]byte("x"), []byte("untrusted comment: \n\ntrusted comment: \n"))
	f.Fuzz(func(t *testing.T, module, text []byte) {
		if _, err := public.Verify(module, text); err == nil && string(module) != "module" {
			t.Errorf("a signature of %q verifies", module)
		}
	})
}

func Example() {
	public, private, err := signature.Generate()
	if err != nil {
		fmt.Println(err)
		return
	}
	sig, err := private.Sign([]byte("\x00asm\x01\x00\x00\x00"), "orders 1.2.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	comment, err := public.Verify([]byte("\x00asm\x01\x00\x00\x00"), sig)
	fmt.Println(comment, err)
	// Output: orders 1.2.0 <nil>
}
