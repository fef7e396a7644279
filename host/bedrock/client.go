package bedrock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/agenthost/agenthost/host/fault"
)

// DefaultService is the name of the service that requests are signed for. That of the
// endpoint bedrock-mantle is bedrock-mantle.
const DefaultService = "bedrock"

// MessagesURL returns the base URL of the Messages API in a region, for anthropicmodel.
func MessagesURL(region string) string { return endpoint(region) + "/anthropic" }

// OpenAIURL returns the base URL of chat completions and the Responses API in a region, for
// openaimodel and responsesmodel.
func OpenAIURL(region string) string { return endpoint(region) + "/openai/v1" }

func endpoint(region string) string { return "https://bedrock-runtime." + region + ".amazonaws.com" }

// Credentials are those of an account or a role.
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // of a role; "" for a user's own
}

// Environment returns the credentials in the environment: AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Code unauthenticated if they are not set.
func Environment(getenv func(string) string) (Credentials, error) {
	c := Credentials{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return Credentials{}, fault.Errorf(fault.Unauthenticated, "Bedrock needs credentials, and AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set").
			WithHint("set both, and AWS_SESSION_TOKEN for a role, or AWS_BEARER_TOKEN_BEDROCK for an API key")
	}
	return c, nil
}

// Options are the parts of a client.
type Options struct {
	Region string // such as eu-west-1

	// Credentials is called for each request, from many goroutines, and must be quick:
	// credentials of roles are renewed by who gives them. Its error fails the request.
	Credentials func(context.Context) (Credentials, error)

	// Service is the name of the service. Default: [DefaultService].
	Service string

	// Transport sends the signed requests. Default: one like http.DefaultTransport.
	Transport http.RoundTripper

	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// NewClient returns a client that signs its requests. It follows no redirect: a signature is
// for one address. Code invalid_argument for a region that there cannot be, and without
// Credentials.
func NewClient(opts *Options) (*http.Client, error) {
	if opts == nil || opts.Credentials == nil {
		return nil, fault.Errorf(fault.InvalidArgument, "a client of Bedrock has no credentials").WithHint("see bedrock.Environment")
	}
	if !isRegion(opts.Region) {
		return nil, fault.Errorf(fault.InvalidArgument, "%.40q is no region of AWS", opts.Region).WithHint("it looks like eu-west-1; set AWS_REGION")
	}
	s := &signer{region: opts.Region, service: cmp.Or(opts.Service, DefaultService), credentials: opts.Credentials, next: opts.Transport, now: opts.Now, v4: v4.NewSigner()}
	if s.next == nil {
		s.next = http.DefaultTransport.(*http.Transport).Clone()
	}
	if s.now == nil {
		s.now = time.Now
	}
	return &http.Client{Transport: s, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// isRegion reports whether a name can be a region's: it becomes part of an address.
func isRegion(name string) bool {
	return name != "" && len(name) <= 40 && strings.Trim(name, "-") == name && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
}

// signer signs requests and sends them.
type signer struct {
	region, service string
	credentials     func(context.Context) (Credentials, error)
	next            http.RoundTripper
	now             func() time.Time
	v4              *v4.Signer
}

// maxBodyBytes bounds a body that can be read once only.
const maxBodyBytes = 64 << 20

// RoundTrip implements http.RoundTripper.
func (s *signer) RoundTrip(req *http.Request) (*http.Response, error) {
	c, err := s.credentials(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	signed := req.Clone(req.Context())
	hash, err := hashBody(signed)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	err = s.v4.SignHTTP(req.Context(), aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken},
		signed, hash, s.service, s.region, s.now().UTC())
	if err != nil {
		closeBody(req)
		return nil, fault.Errorf(fault.InvalidArgument, "sign request to Bedrock: %w", err)
	}
	resp, err := s.next.RoundTrip(signed)
	if err == nil && resp.StatusCode == http.StatusForbidden {
		err = redact(resp, c)
	}
	return resp, err
}

// CloseIdleConnections lets http.Client close connections.
func (s *signer) CloseIdleConnections() {
	if c, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// hashBody returns the hash of a body as the signature has it. A body that can be read once
// only is kept in memory.
func hashBody(req *http.Request) (string, error) {
	h := sha256.New()
	switch {
	case req.Body == nil || req.Body == http.NoBody:
	case req.GetBody != nil:
		body, err := req.GetBody()
		if err != nil {
			return "", err
		}
		defer body.Close()
		if _, err := io.Copy(h, body); err != nil {
			return "", err
		}
	default:
		b, err := io.ReadAll(io.LimitReader(req.Body, maxBodyBytes+1))
		req.Body.Close()
		if err != nil {
			return "", err
		}
		if len(b) > maxBodyBytes {
			return "", fault.Errorf(fault.InvalidArgument, "a request to Bedrock has more than %d bytes", maxBodyBytes)
		}
		h.Write(b)
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// maxRefusalBytes bounds the body of a refusal.
const maxRefusalBytes = 64 << 10

// redact takes the credentials out of a refusal: the service repeats what it expected to be
// signed, the session token included.
func redact(resp *http.Response, c Credentials) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes))
	resp.Body.Close()
	if err != nil {
		return err
	}
	for _, secret := range []string{c.SecretAccessKey, c.SessionToken} {
		if secret != "" {
			b = bytes.ReplaceAll(b, []byte(secret), []byte("[secret]"))
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	resp.Header.Del("Content-Length")
	return nil
}
