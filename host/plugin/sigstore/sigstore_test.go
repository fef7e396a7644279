package sigstore_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/share"
	"github.com/agenthost/agenthost/host/plugin/sigstore"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/sigstoretest"
)

// release is the identity of the tests, of an instance.
func release(t testing.TB, instance *sigstoretest.Instance, change func(*share.Identity)) share.BundleVerifier {
	t.Helper()
	id := share.Identity{Issuer: sigstoretest.Issuer, Subject: sigstoretest.Subject, Root: instance.Root(t)}
	if change != nil {
		change(&id)
	}
	v, err := sigstore.New(id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

func noEntries(b *protobundle.Bundle) { b.VerificationMaterial.TlogEntries = nil }

func noTimestamps(b *protobundle.Bundle) { b.VerificationMaterial.TimestampVerificationData = nil }

func entryTwice(b *protobundle.Bundle) {
	b.VerificationMaterial.TlogEntries = append(b.VerificationMaterial.TlogEntries, b.VerificationMaterial.TlogEntries...)
}

func mediaType(text string) sigstoretest.Change {
	return func(b *protobundle.Bundle) { b.MediaType = text }
}

func TestABundleIsOfOneDigestByOneIdentity(t *testing.T) {
	instance, stranger := sigstoretest.New(t), sigstoretest.New(t)
	module := []byte("module")
	sign := func(changes ...sigstoretest.Change) []byte {
		return instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module, changes...)
	}
	good := sign()
	withoutLog := func(id *share.Identity) { id.WithoutLog = true }
	pattern := func(subject string) func(*share.Identity) {
		return func(id *share.Identity) { id.Subject, id.SubjectPattern = "", subject }
	}
	for name, row := range map[string]struct {
		bundle []byte
		change func(*share.Identity)
		want   fault.Code
	}{
		"the digest, signed":                 {good, nil, ""},
		"of media type 0.1":                  {sign(mediaType("application/vnd.dev.sigstore.bundle+json;version=0.1")), nil, ""},
		"of media type 0.2":                  {sign(mediaType("application/vnd.dev.sigstore.bundle+json;version=0.2")), nil, ""},
		"of media type 0.4":                  {sign(mediaType("application/vnd.dev.sigstore.bundle.v0.4+json")), nil, fault.InvalidArgument},
		"a statement of cosign":              {instance.AttestContent(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.CosignSign, module), nil, ""},
		"provenance":                         {instance.AttestContent(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.Provenance, module), nil, ""},
		"a statement that is no signature":   {instance.AttestContent(t, sigstoretest.Subject, sigstoretest.Issuer, "https://cosign.sigstore.dev/attestation/vuln/v1", module), nil, fault.PermissionDenied},
		"a statement of another digest":      {instance.AttestContent(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.Provenance, []byte("modulE")), nil, fault.PermissionDenied},
		"another digest":                     {instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, []byte("modulE")), nil, fault.PermissionDenied},
		"another subject":                    {instance.Sign(t, "mallory@acme.example", sigstoretest.Issuer, module), nil, fault.PermissionDenied},
		"another issuer":                     {instance.Sign(t, sigstoretest.Subject, "https://accounts.example", module), nil, fault.PermissionDenied},
		"another instance":                   {stranger.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module), nil, fault.PermissionDenied},
		"a subject of the pattern":           {good, pattern(`rel.*@acme\.example`), ""},
		"a subject that only begins so":      {good, pattern(`release`), fault.PermissionDenied},
		"a subject that only ends so":        {good, pattern(`acme\.example`), fault.PermissionDenied},
		"one of two patterns at the edges":   {good, pattern(`release|acme\.example`), fault.PermissionDenied},
		"an issuer of the pattern":           {good, func(id *share.Identity) { id.Issuer, id.IssuerPattern = "", `https://token\..*\.com` }, ""},
		"no entry of a log":                  {sign(noEntries), nil, fault.PermissionDenied},
		"one entry of a log, twice":          {sign(entryTwice), nil, fault.PermissionDenied},
		"no timestamp of an authority":       {sign(noTimestamps), nil, ""},
		"no entry, and none is asked for":    {sign(noEntries), withoutLog, ""},
		"no timestamp, and no log":           {sign(noTimestamps), withoutLog, fault.PermissionDenied},
		"neither time, and none is from now": {sign(noTimestamps, noEntries), withoutLog, fault.PermissionDenied},
		"entered after the certificate":      {instance.SignLate(t, sigstoretest.Subject, sigstoretest.Issuer, module), nil, fault.PermissionDenied},
		"truncated":                          {good[:len(good)/2], nil, fault.InvalidArgument},
		"empty":                              {nil, nil, fault.InvalidArgument},
		"no bundle":                          {[]byte(`{"mediaType":"text/plain"}`), nil, fault.InvalidArgument},
		"huge":                               {append(bytes.Repeat([]byte(" "), sigstore.MaxBundleBytes), good...), nil, fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := release(t, instance, row.change).VerifyBundle(row.bundle, digestOf(module))
			if fault.CodeOf(err) != row.want && (row.want != "" || err != nil) {
				t.Fatalf("VerifyBundle = %q, %v, want code %q", signer, err, row.want)
			}
			if want := sigstoretest.Subject + " (" + sigstoretest.Issuer + ")"; err == nil && signer != want {
				t.Errorf("signed by %q, want %q", signer, want)
			}
		})
	}
}

// Each byte that a signature holds is that of the signature: a bundle in which one of them is
// another one is refused. So are bundles with another byte in the rest, except for the labels of
// heldSpans. Under the race detector, which makes arithmetic slow, it is one byte in eight: each
// bundle is verified by one goroutine.
func TestABundleThatWasTamperedWithIsRefused(t *testing.T) {
	instance := sigstoretest.New(t)
	module := []byte("module")
	digest := sha256.Sum256(module)
	for name, row := range map[string]struct {
		bundle []byte
		change func(*share.Identity)
	}{
		"a signature in a log":         {instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module, noTimestamps), nil},
		"a statement in a log":         {instance.Attest(t, sigstoretest.Subject, sigstoretest.Issuer, sigstoretest.Provenance, digest[:], noTimestamps), nil},
		"a signature with a timestamp": {instance.Sign(t, sigstoretest.Subject, sigstoretest.Issuer, module, noEntries), func(id *share.Identity) { id.WithoutLog = true }},
	} {
		t.Run(name, func(t *testing.T) {
			v := release(t, instance, row.change)
			var doc any
			if err := json.Unmarshal(row.bundle, &doc); err != nil {
				t.Fatal(err)
			}
			tried, every := 0, longtest.Alone(8, 1)
			eachTampered(doc, "", func(place string) {
				if tried++; tried%every != 0 {
					return
				}
				text, err := json.Marshal(doc)
				if err != nil {
					t.Fatal(err)
				}
				if signer, err := v.VerifyBundle(text, digestOf(module)); err == nil {
					t.Errorf("a bundle with another %s is by %s", place, signer)
				}
			})
			if tried < 500 {
				t.Errorf("the bundle has %d bytes to tamper with, want a certificate at least", tried)
			}
		})
	}
}

// eachTampered calls try after it has changed one byte of a text below doc, for each of the bytes
// that are held.
func eachTampered(doc any, place string, try func(place string)) {
	switch doc := doc.(type) {
	case map[string]any:
		for name, v := range doc {
			text, ok := v.(string)
			if !ok {
				eachTampered(v, place+"/"+name, try)
				continue
			}
			raw, encode := bytesOf(text)
			for _, span := range heldSpans(name, raw) {
				for i := span.from; i < span.to; i++ {
					raw[i] ^= 1
					doc[name] = encode(raw)
					try(fmt.Sprintf("%s/%s[%d]", place, name, i))
					raw[i] ^= 1
				}
			}
			doc[name] = text
		}
	case []any:
		for i, v := range doc {
			eachTampered(v, fmt.Sprintf("%s/%d", place, i), try)
		}
	}
}

// bytesOf returns the bytes that a text stands for: those of its base64, or else its own.
func bytesOf(text string) (raw []byte, encode func([]byte) string) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil && strings.Trim(text, "0123456789") != "" {
		return raw, base64.StdEncoding.EncodeToString
	}
	return []byte(text), func(raw []byte) string { return string(raw) }
}

type byteSpan struct{ from, to int }

// heldSpans returns the bytes of a bundle's member that a signature holds, or that are compared with
// bytes that it holds.
func heldSpans(name string, raw []byte) []byteSpan {
	switch name {
	case "mediaType", "kind", "version", "algorithm": // labels: the forms of the bundle and of the entry, and of a digest that is given again
		return nil
	case "envelope": // in the line of its signature the checkpoint has the log's name, which the signature does not hold
		mark := []byte("\n\n\u2014 ")
		body, line, _ := bytes.Cut(raw, mark)
		to := len(raw)
		if digits := bytes.TrimRight(raw, "=\n"); len(digits) < to-1 { // padded: the last digit has bits that are of no byte
			to = len(digits) - 1
		}
		return []byteSpan{{0, len(body)}, {len(body) + len(mark) + bytes.IndexByte(line, ' ') + 1, to}}
	case "signedTimestamp": // what is signed is the TSTInfo, an octet string behind its type; the rest is the frame of CMS
		tstInfo := []byte("\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x04\xa0")
		at := bytes.Index(raw, tstInfo) + len(tstInfo)
		at += 1 + max(int(raw[at])-0x80, 0) + 1 // the length of the explicit tag, and the tag of the octet string
		length := int(raw[at])
		if at++; length > 0x80 {
			length, at = int(raw[at]), at+1
		}
		return []byteSpan{{at, at + length}}
	}
	return []byteSpan{{0, len(raw)}}
}

func TestAnIdentityIsCompleteAndReadable(t *testing.T) {
	trusted := sigstoretest.New(t).Root(t)
	for name, row := range map[string]struct {
		change func(*share.Identity)
		want   string
	}{
		"no issuer":                  {func(id *share.Identity) { id.Issuer = "" }, "issuer"},
		"no subject":                 {func(id *share.Identity) { id.Subject = "" }, "subject"},
		"two subjects":               {func(id *share.Identity) { id.SubjectPattern = ".*" }, "subject_pattern"},
		"a pattern that is none":     {func(id *share.Identity) { id.Subject, id.SubjectPattern = "", "(" }, "no regular expression"},
		"a pattern that closes ours": {func(id *share.Identity) { id.Subject, id.SubjectPattern = "", "x)|(?:.*" }, "no regular expression"},
		"a pattern that quotes ours": {func(id *share.Identity) { id.Subject, id.SubjectPattern = "", `\Qacme.example` }, `\E`},
		"a long pattern":             {func(id *share.Identity) { id.Subject, id.SubjectPattern = "", strings.Repeat("x", 2000) }, "bytes"},
		"no root":                    {func(id *share.Identity) { id.Root = nil }, "trusted root"},
		"a root that is none":        {func(id *share.Identity) { id.Root = []byte("{}") }, "trusted root"},
		"a root without authorities": {func(id *share.Identity) {
			id.Root = []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`)
		}, "certificate authority"},
		"a huge root":                  {func(id *share.Identity) { id.Root = bytes.Repeat([]byte(" "), sigstore.MaxRootBytes+1) }, "bytes"},
		"more logs than the root has":  {func(id *share.Identity) { id.LogEntries = 2 }, "lists 1"},
		"more times than the root has": {func(id *share.Identity) { id.Timestamps = 2 }, "lists 1"},
		"a log and none":               {func(id *share.Identity) { id.LogEntries, id.WithoutLog = 1, true }, "without_log"},
		"less than no log":             {func(id *share.Identity) { id.LogEntries = -1 }, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			id := share.Identity{Issuer: sigstoretest.Issuer, Subject: sigstoretest.Subject, Root: trusted}
			row.change(&id)
			if _, err := sigstore.New(id); fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), row.want) {
				t.Errorf("New = %v, want code invalid_argument and %q", err, row.want)
			}
		})
	}
}
