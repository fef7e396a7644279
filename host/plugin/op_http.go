package plugin

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/egress"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/rawbytes"
	"github.com/agenthost/agenthost/host/usage"
)

// Fetcher sends the requests of plugins. [egress.Client] holds them to the granted
// permissions; tests replace it by another. It is safe for concurrent use.
type Fetcher interface {
	Fetch(ctx context.Context, req *egress.Request) (*egress.Response, error)
}

// maxHTTPRedirects bounds the redirects that a request may ask to follow.
const maxHTTPRedirects = 10

// httpPolicy returns the policy of the rights, made when it is first asked for.
func (r *rights) httpPolicy() (*egress.Policy, error) {
	r.once.Do(func() { r.policy, r.policyErr = r.granted.Policy() })
	return r.policy, r.policyErr
}

// fetchRequest is that of http.fetch.
type (
	fetchRequest struct {
		Method    string         `json:"method"`
		URL       string         `json:"url"`
		Headers   []fetchHeader  `json:"headers,omitempty"`
		Body      rawbytes.Field `json:"body"`
		TimeoutMS int64          `json:"timeout_ms,omitempty"`
		Redirects int            `json:"redirects,omitempty"`
	}
	fetchHeader struct {
		Name   string `json:"name"`
		Value  string `json:"value,omitempty"`
		Prefix string `json:"prefix,omitempty"`
		Secret string `json:"secret,omitempty"`
	}
)

func readFetch(req []byte) (*fetchRequest, error) {
	in := &fetchRequest{}
	if err := abi.ReadRequest("http.fetch", req, in); err != nil {
		return nil, err
	}
	if in.TimeoutMS < 0 || in.Redirects < 0 || in.Redirects > maxHTTPRedirects {
		return nil, host.Errorf(host.InvalidArgument, "request of http.fetch: timeout_ms is not negative, and redirects is at most %d", maxHTTPRedirects)
	}
	for _, h := range in.Headers {
		if h.Secret != "" && h.Value != "" || h.Secret == "" && h.Prefix != "" {
			return nil, host.Errorf(host.InvalidArgument, "request of http.fetch: header %q has either a value, or a secret and its prefix", clean(h.Name))
		}
	}
	return in, nil
}

func (b *binding) fetch(ctx context.Context, req []byte) ([]byte, error) {
	in, err := readFetch(req)
	if err != nil {
		return nil, err
	}
	payload := rawbytes.Of(ctx)
	if err := payload.Take("http.fetch", &in.Body); err != nil {
		return nil, err
	}
	out, err := b.outgoing(in)
	if err != nil {
		return nil, err
	}
	if err := out.Policy.Allows(out.Method, out.URL); err != nil {
		return nil, b.fetchError(err)
	}
	payer := b.payer(ctx)
	if err := payer.Reserve(usage.HTTPRequests, 1); err != nil {
		return nil, err
	}
	var resp *egress.Response
	callmeter.WhileBlocked(ctx, func(ctx context.Context) { resp, err = b.fetchOutgoing(ctx, out) })
	if err != nil {
		return nil, b.fetchError(err)
	}
	b.noteFetch(out, resp, payer)
	return writeFetched(in, resp, payload), nil
}

// outgoing is the request as the client takes it.
func (b *binding) outgoing(in *fetchRequest) (*egress.Request, error) {
	r := b.rights()
	policy, err := r.httpPolicy()
	if err != nil {
		return nil, err
	}
	out := &egress.Request{
		Tenant: b.account.id, Plugin: b.plugin.id, Policy: policy, Method: in.Method, URL: in.URL, Body: in.Body.Bytes,
		Limits: egress.Limits{
			Timeout: min(time.Duration(in.TimeoutMS)*time.Millisecond, r.limits.Timeout), RequestBytes: r.limits.ResponseBytes,
			ResponseBytes: max(r.limits.ResponseBytes/2, 1), // as JSON it is more
			Redirects:     in.Redirects,
		},
	}
	if out.Method == "" {
		out.Method = "GET"
	}
	if in.Redirects == 0 {
		out.Limits.Redirects = -1
	}
	for _, h := range in.Headers {
		out.Headers = append(out.Headers, egress.Header(h))
	}
	return out, nil
}

// noteFetch records the hosts and secrets that a request used, and charges for its
// redirects.
func (b *binding) noteFetch(out *egress.Request, resp *egress.Response, pays payer) {
	if resp.Redirects > 0 {
		_ = pays.Charge(usage.HTTPRequests, int64(resp.Redirects), time.Now()) // the next request learns that the budget is used up
	}
	if u, err := url.Parse(out.URL); err == nil {
		port, _ := strconv.Atoi(u.Port())
		b.usage.noteHTTP(HTTPAccess{Scheme: u.Scheme, Host: clean(u.Hostname()), Port: port, Methods: []string{out.Method}})
		for _, h := range out.Headers {
			if h.Secret != "" {
				b.usage.noteSecret(h.Secret, clean(u.Scheme+"://"+u.Host))
			}
		}
	}
}

// fetchError returns the error of a failed request for the guest. A denial is counted
// and logged like any other.
func (b *binding) fetchError(err error) error {
	e := fault.AsError(err)
	if e.Code == host.PermissionDenied {
		grant := e.Hint
		if grant == "" {
			grant = "http"
		}
		b.noteDenied(strings.TrimPrefix(grant, "grant "), err)
	}
	return err
}

func writeFetched(in *fetchRequest, resp *egress.Response, payload *rawbytes.Payload) []byte {
	out := abi.NewObject(abi.EnvelopeSize + payload.Room(len(resp.Body)))
	out.Int("status", int64(resp.Status))
	out.Key("headers")
	out.B = append(out.B, '[')
	for i, h := range resp.Headers {
		if i > 0 {
			out.B = append(out.B, ',')
		}
		out.B = append(out.B, '{')
		out.Text("name", h.Name)
		out.Text("value", h.Value)
		out.B = append(out.B, '}')
	}
	out.B = append(out.B, ']')
	payload.Write(out, "body", resp.Body)
	if in.Redirects > 0 {
		out.Text("url", resp.URL)
	}
	return out.End()
}

var _ Fetcher = (*egress.Client)(nil)
