package egress

import (
	"io"
	"net/http"

	"github.com/agenthost/agenthost/host/fault"
)

// drainBytes is how much of a redirect's own body is read to keep its connection.
const drainBytes = 4 << 10

// redirectOf returns where a response sends its reader, if it does.
func redirectOf(resp *http.Response) (string, bool) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		location := resp.Header.Get("Location")
		return location, location != ""
	}
	return "", false
}

// redirect turns the request into the one that the server asks for (RFC 9110,
// section 15.4). It is checked against the policy like the first one when it is
// sent. On the way to another server everything that may be a credential is
// dropped, and stays dropped if a later redirect leads back.
func (f *fetch) redirect(status int, location string) error {
	if len(location) > maxURLBytes {
		return f.badRedirect()
	}
	u, err := f.target.url.Parse(location)
	if err != nil {
		return f.badRedirect()
	}
	next, err := parseTarget(u.String())
	if err != nil {
		return f.badRedirect()
	}
	switch {
	case status == http.StatusSeeOther && f.method != http.MethodHead,
		(status == http.StatusMovedPermanently || status == http.StatusFound) && f.method == http.MethodPost:
		f.method, f.body, f.headers = http.MethodGet, nil, dropBodyHeaders(f.headers)
	}
	if !next.sameOrigin(f.target) {
		f.headers = keepSafe(f.headers)
	}
	f.target = next
	return nil
}

func (f *fetch) badRedirect() error {
	return fault.Errorf(fault.Unavailable, "%s redirects to a URL that can't be used", f.target.origin())
}

// drain reads a little of an unwanted body, and closes it.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, drainBytes)
	_ = body.Close()
}
