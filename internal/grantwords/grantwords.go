// Package grantwords reads and writes permissions of plugins in the form of the command
// line and of configurations: state=read, http='GET https://api.example.com'.
package grantwords

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/permission"
	"github.com/agenthost/agenthost/internal/termtext"
)

// Syntax describes the form of permissions on the command line.
const Syntax = "state=read|write, kv=read|write, http='[METHODS ]URL[ at ADDRESSES]', secret=NAME@HOST,HOST, messages, model, queue, clock, random, tools=NAME|*, operation=NAMESPACE.NAME"

// Parse reads the permissions of --grant flags. One flag may hold several, separated by
// commas, also in the form that inspect prints.
func Parse(list []string) (p plugin.Permissions, err error) {
	for _, flag := range list {
		for _, grant := range splitGrants(flag) {
			if err := Add(&p, grant); err != nil {
				return p, fmt.Errorf("--grant %s: %w", grant, err)
			}
		}
	}
	return p, nil
}

// splitGrants cuts a list of grants at its commas, except for the commas between methods,
// hosts and addresses.
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

// beginsGrant reports whether a piece of a list, behind a grant with commas of its own,
// is the next grant: it follows a space and begins with a permission's word.
func beginsGrant(piece string) bool {
	word, found := strings.CutPrefix(piece, " ")
	name, _, _ := strings.Cut(word, "=")
	return found && slices.Contains([]string{"http", "secret", "state", "kv", "messages", "model", "queue", "clock", "random", "tools", "operation"}, name)
}

// Add adds one permission in the form of the command line.
func Add(p *plugin.Permissions, grant string) (err error) {
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
	case name == "operation" && hasValue:
		if !permission.ValidOperation(value) {
			return errors.New("write operation=NAMESPACE.NAME in small letters, digits and _")
		}
		p.Operations = append(p.Operations, value)
	case name == "http" && hasValue:
		access, err := ParseHTTP(value)
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
	case name == "tools" && hasValue:
		p.Tools = append(p.Tools, value)
		return p.Check()
	default:
		if near := termtext.Nearest(name, append(slices.Sorted(maps.Keys(flags)), append(slices.Sorted(maps.Keys(levels)), "http", "secret", "tools", "operation")...)); near != "" && near != name {
			return fmt.Errorf("there is no such permission; did you mean %s?", near)
		}
		return errors.New("it is none of " + Syntax)
	}
	return nil
}

var errHTTPGrant = errors.New("write http=HOST, http=HOST:PORT, http=https://HOST:PORT, http='GET,POST https://HOST' or http='https://HOST at 10.1.0.0/16'")

// addressesWord introduces the addresses of a grant.
const addressesWord = " at "

// ParseHTTP reads HOST, HOST:PORT or SCHEME://HOST:PORT, with methods in front unless
// all are granted, and behind it the ranges of non-public addresses that the host may
// have.
func ParseHTTP(value string) (access plugin.HTTPAccess, err error) {
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

// Asked writes the permissions that a manifest asks for, without addresses: only the
// operator names those.
func Asked(p plugin.Permissions) []string {
	p.HTTP = slices.Clone(p.HTTP)
	for i := range p.HTTP {
		p.HTTP[i].Addresses = nil
	}
	return Words(p)
}

// Words writes permissions in the form of the command line.
func Words(p plugin.Permissions) []string { return p.Words() }
