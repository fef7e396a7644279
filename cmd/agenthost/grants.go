package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/agenthost/agenthost/host/plugin"
)

// grantWords is how permissions are written on the command line.
const grantWords = "state=read|write, kv=read|write, http='[METHODS ]URL[ at ADDRESSES]', secret=NAME@HOST,HOST, messages, model, queue, clock, random"

// parseGrants reads the permissions of --grant flags. One flag may hold several
// with commas between, also as inspect prints them.
func parseGrants(list []string) (p plugin.Permissions, err error) {
	for _, flag := range list {
		for _, grant := range splitGrants(flag) {
			if err := addGrant(&p, grant); err != nil {
				return p, fmt.Errorf("--grant %s: %w", grant, err)
			}
		}
	}
	return p, nil
}

// splitGrants cuts a list of grants at its commas, but for those that methods, hosts
// and addresses have between them.
func splitGrants(list string) (grants []string) {
	for i, piece := range strings.Split(list, ",") {
		last := len(grants) - 1
		if i > 0 && (strings.HasPrefix(grants[last], "http=") || strings.HasPrefix(grants[last], "secret=")) && !beginsGrant(piece) {
			grants[last] += "," + piece
			continue
		}
		grants = append(grants, strings.TrimSpace(piece))
	}
	return grants
}

// beginsGrant reports whether a piece of a list behind a grant with commas of its own
// is the next grant: it follows a space and is a permission's word.
func beginsGrant(piece string) bool {
	word, found := strings.CutPrefix(piece, " ")
	name, _, _ := strings.Cut(word, "=")
	return found && slices.Contains([]string{"http", "secret", "state", "kv", "messages", "model", "queue", "clock", "random"}, name)
}

// addGrant adds one permission, as it is written on the command line.
func addGrant(p *plugin.Permissions, grant string) (err error) {
	flags := map[string]*bool{"messages": &p.Messages, "clock": &p.Clock, "random": &p.Random, "model": &p.Model, "queue": &p.Queue}
	levels := map[string]*plugin.Access{"state": &p.State, "kv": &p.KV}
	name, value, hasValue := strings.Cut(grant, "=")
	switch {
	case flags[name] != nil && !hasValue:
		*flags[name] = true
	case flags[name] != nil:
		return fmt.Errorf("write %s, without a value", name)
	case levels[name] != nil && (value == "read" || value == "write"):
		*levels[name] = plugin.Access(value)
	case levels[name] != nil:
		return fmt.Errorf("write %s=read or %s=write", name, name)
	case name == "http" && hasValue:
		access, err := parseHTTPGrant(value)
		if err != nil {
			return err
		}
		p.HTTP = append(p.HTTP, access)
	case name == "secret" && hasValue:
		access, err := parseSecretGrant(value)
		if err != nil {
			return err
		}
		p.Secrets = append(p.Secrets, access)
	default:
		if near := nearest(name, append(sortedKeys(flags), append(sortedKeys(levels), "http", "secret")...)); near != "" && near != name {
			return fmt.Errorf("there is no such permission; did you mean %s?", near)
		}
		return errors.New("it is none of " + grantWords)
	}
	return nil
}

var errHTTPGrant = errors.New("write http=HOST, http=HOST:PORT, http=https://HOST:PORT, http='GET,POST https://HOST' or http='https://HOST at 10.1.0.0/16'")

// addressesWord stands before the addresses of a grant.
const addressesWord = " at "

// parseHTTPGrant reads HOST, HOST:PORT or SCHEME://HOST:PORT, with methods in
// front if not all are meant, and behind it the ranges of addresses that the host
// may have although they are not public.
func parseHTTPGrant(value string) (access plugin.HTTPAccess, err error) {
	value, ranges, found := strings.Cut(value, addressesWord)
	if found {
		if access.Addresses, err = parseAddresses(ranges); err != nil {
			return access, err
		}
	}
	if methods, rest, found := strings.Cut(value, " "); found {
		access.Methods, value = strings.Split(methods, ","), strings.TrimSpace(rest)
	}
	if slices.ContainsFunc(access.Methods, func(m string) bool {
		return m == "" || strings.ContainsFunc(m, func(r rune) bool { return r < 'A' || r > 'Z' })
	}) {
		return access, errHTTPGrant
	}
	if !strings.Contains(value, "://") {
		value = "https://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return access, errHTTPGrant
	}
	access.Scheme, access.Host = u.Scheme, u.Hostname()
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return access, fmt.Errorf("%q is not a port", port)
		}
		access.Port = int(n)
	}
	return access, nil
}

// parseAddresses reads addresses and ranges of them with commas between.
func parseAddresses(list string) (all []netip.Prefix, err error) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if a, err := netip.ParseAddr(item); err == nil && a.Zone() == "" {
			all = append(all, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a range such as 10.1.0.0/16", item)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// parseSecretGrant reads NAME@HOST,HOST.
func parseSecretGrant(value string) (plugin.SecretAccess, error) {
	name, hosts, found := strings.Cut(value, "@")
	list := strings.Split(hosts, ",")
	if !found || name == "" || slices.Contains(list, "") {
		return plugin.SecretAccess{}, errors.New("write secret=NAME@HOST, or secret=NAME@HOST,HOST")
	}
	return plugin.SecretAccess{Name: name, Hosts: list}, nil
}

// httpGrant is access to a server, written as on the command line.
type httpGrant plugin.HTTPAccess

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (g *httpGrant) UnmarshalYAML(n ast.Node) error {
	access, err := parseHTTPGrant(scalar(n))
	if err != nil {
		return badValue(n, "%q is not access to a server: write https://HOST, https://HOST:PORT, GET,POST https://HOST or https://HOST at 10.1.0.0/16", scalar(n))
	}
	*g = httpGrant(access)
	return nil
}

// String writes the grant as it is read.
func (g httpGrant) String() string { return plugin.HTTPAccess(g).String() }

// grantConfig is what is granted, in the configuration.
type grantConfig struct {
	State    string        `yaml:"state"` // none, read or write
	KV       string        `yaml:"kv"`    // none, read or write
	HTTP     []httpGrant   `yaml:"http"`  // https://HOST, GET,POST https://HOST or https://HOST at 10.1.0.0/16
	Secrets  []secretGrant `yaml:"secrets"`
	Messages bool          `yaml:"messages"`
	Model    bool          `yaml:"model"`
	Queue    bool          `yaml:"queue"`
	Clock    bool          `yaml:"clock"`
	Random   bool          `yaml:"random"`
}

type secretGrant struct {
	Name  string   `yaml:"name"`
	Hosts []string `yaml:"hosts"`
}

// permissions maps grants at a place of the configuration.
func (c *config) permissions(at place, g grantConfig) (plugin.Permissions, error) {
	p := plugin.Permissions{
		Messages: g.Messages, Model: g.Model, Queue: g.Queue, Clock: g.Clock, Random: g.Random,
		State: plugin.Access(g.State), KV: plugin.Access(g.KV),
	}
	for _, level := range []struct {
		name  string
		value plugin.Access
	}{{"state", p.State}, {"kv", p.KV}} {
		switch level.value {
		case "", plugin.None, plugin.Read, plugin.Write:
		default:
			return p, c.errorAt(at.to(level.name), "grant of %s is %q", level.name, level.value).WithHint("use none, read or write")
		}
	}
	for _, h := range g.HTTP {
		p.HTTP = append(p.HTTP, plugin.HTTPAccess(h))
	}
	for _, s := range g.Secrets {
		p.Secrets = append(p.Secrets, plugin.SecretAccess{Name: s.Name, Hosts: s.Hosts})
	}
	return p, nil
}

// askedWords writes what a manifest asks for, without addresses: those are the
// operator's to grant.
func askedWords(p plugin.Permissions) []string {
	p.HTTP = slices.Clone(p.HTTP)
	for i := range p.HTTP {
		p.HTTP[i].Addresses = nil
	}
	return permissionWords(p)
}

// permissionWords writes permissions as they are granted on the command line.
func permissionWords(p plugin.Permissions) []string { return p.Words() }
