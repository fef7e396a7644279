package share

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/fault"
)

// The types of the document that cosign signs, and of a manifest with it that refers to an artifact.
const (
	simpleSigningType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignArtifactType = "application/vnd.dev.cosign.artifact.sig.v1+json"
)

// The annotations in which cosign keeps a signature, its certificate and its times.
const (
	cosignSignature   = "dev.cosignproject.cosign/signature"
	cosignCertificate = "dev.sigstore.cosign/certificate"
	cosignEntry       = "dev.sigstore.cosign/bundle"
	cosignTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"
)

// simpleSigning is the document that cosign signs.
type simpleSigning struct {
	Critical struct {
		Type     string `json:"type"`
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
	} `json:"critical"`
}

// readSigned returns the repository that a document of cosign names, "" if it names none. A
// document of another artifact is refused.
func readSigned(signed []byte, digest string) (repository string, err error) {
	var doc simpleSigning
	if err := json.Unmarshal(signed, &doc); err != nil || doc.Critical.Type != "cosign container image signature" {
		return "", fault.Errorf(fault.PermissionDenied, "the signed document is none of cosign about an image")
	}
	if got := doc.Critical.Image.Digest; got != digest || digest == "" {
		return "", fault.Errorf(fault.PermissionDenied, "the signed document names %.200q, and the artifact is %s", got, digest)
	}
	repository, _, _ = strings.Cut(doc.Critical.Identity.Reference, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	return dockerHub(repository), nil
}

// dockerHub writes the two names of one registry, of which cosign says the longer one, as one.
func dockerHub(repository string) string {
	if rest, ok := strings.CutPrefix(repository, "index.docker.io/"); ok {
		return "docker.io/" + rest
	}
	return repository
}

// bundleOf writes a signature of cosign, from its annotations, as a bundle of the signed document.
// It fails for a signature without a certificate.
func bundleOf(signed []byte, annotations map[string]string) ([]byte, error) {
	leaf, _ := pem.Decode([]byte(annotations[cosignCertificate]))
	if leaf == nil {
		return nil, fault.Errorf(fault.InvalidArgument, "the signature has no certificate")
	}
	sum, err := hex.DecodeString(strings.TrimPrefix(digestOf(signed), "sha256:"))
	if err != nil {
		return nil, err
	}
	b := cosignBundle{MediaType: "application/vnd.dev.sigstore.bundle+json;version=0.1"}
	b.Message.Digest.Algorithm, b.Message.Digest.Digest, b.Message.Signature = "SHA2_256", sum, annotations[cosignSignature]
	b.Material.Chain.Certificates = []certificate{{leaf.Bytes}}
	if text := annotations[cosignEntry]; text != "" {
		entry, err := entryOf(text)
		if err != nil {
			return nil, err
		}
		b.Material.Entries = []logEntry{*entry}
	}
	if text := annotations[cosignTimestamp]; text != "" {
		var stamp struct{ SignedRFC3161Timestamp string }
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return nil, err
		}
		b.Material.Timestamps.List = []timestamp{{stamp.SignedRFC3161Timestamp}}
	}
	return json.Marshal(b)
}

// entryOf reads the entry of a transparency log as cosign keeps it.
func entryOf(text string) (*logEntry, error) {
	var kept struct {
		SignedEntryTimestamp string
		Payload              struct {
			Body           string `json:"body"`
			IntegratedTime int64  `json:"integratedTime"`
			LogIndex       int64  `json:"logIndex"`
			LogID          string `json:"logID"`
		}
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(kept.Payload.LogID)
	if err != nil {
		return nil, err
	}
	body, err := base64.StdEncoding.DecodeString(kept.Payload.Body)
	if err != nil {
		return nil, err
	}
	var kind struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, err
	}
	e := &logEntry{Index: strconv.FormatInt(kept.Payload.LogIndex, 10), Time: strconv.FormatInt(kept.Payload.IntegratedTime, 10), Body: body}
	e.ID.KeyID, e.Promise.Timestamp = id, kept.SignedEntryTimestamp
	e.Kind.Kind, e.Kind.Version = kind.Kind, kind.Version
	return e, nil
}

// cosignBundle is a bundle of media type 0.1, as far as signatures of cosign have it.
type cosignBundle struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		Chain struct {
			Certificates []certificate `json:"certificates"`
		} `json:"x509CertificateChain"`
		Entries    []logEntry `json:"tlogEntries,omitempty"`
		Timestamps struct {
			List []timestamp `json:"rfc3161Timestamps,omitempty"`
		} `json:"timestampVerificationData"`
	} `json:"verificationMaterial"`
	Message struct {
		Digest struct {
			Algorithm string `json:"algorithm"`
			Digest    []byte `json:"digest"`
		} `json:"messageDigest"`
		Signature string `json:"signature"`
	} `json:"messageSignature"`
}

type certificate struct {
	Raw []byte `json:"rawBytes"`
}

type timestamp struct {
	Signed string `json:"signedTimestamp"`
}

type logEntry struct {
	Index string `json:"logIndex"`
	ID    struct {
		KeyID []byte `json:"keyId"`
	} `json:"logId"`
	Kind struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"kindVersion"`
	Time    string `json:"integratedTime"`
	Promise struct {
		Timestamp string `json:"signedEntryTimestamp"`
	} `json:"inclusionPromise"`
	Body []byte `json:"canonicalizedBody"`
}
