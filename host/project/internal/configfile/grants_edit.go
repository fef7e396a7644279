package configfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/grantwords"
)

// WithGrants returns the configuration's text with more grants at a place, which need
// not exist. Comments and all other text stay.
func (c *Config) WithGrants(at KeyPath, words []string) ([]byte, error) {
	var p plugin.Permissions
	for _, word := range words {
		if err := grantwords.Add(&p, word); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "%s: %w", word, err)
		}
	}
	p.HTTP, p.Secrets = widest(p.HTTP, plugin.HTTPAccess.Within), widest(p.Secrets, plugin.SecretAccess.Within)
	file, err := parser.ParseBytes(c.Text, parser.ParseComments)
	if err != nil || len(file.Docs) == 0 {
		return nil, c.errorAt(nil, "%w", err)
	}
	root, isMap := plain(file.Docs[0].Body).(*ast.MappingNode)
	if !isMap {
		return nil, c.ErrorAt(nil, "it is no map")
	}
	path := make([]string, len(at))
	for i, key := range at {
		path[i] = fmt.Sprint(key)
	}
	e := &edit{config: c}
	e.set(root, path, grantEntries(p))
	if e.err != nil || !e.changed {
		return c.Text, e.err
	}
	text := file.String()
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return []byte(text), nil
}

// widest returns a list without the items that another item covers; of equal items the
// first stays.
func widest[T any](list []T, within func(T, T) bool) (out []T) {
	for i, item := range list {
		held := slices.ContainsFunc(out, func(o T) bool { return within(item, o) }) ||
			slices.ContainsFunc(list[i+1:], func(o T) bool { return within(item, o) && !within(o, item) })
		if !held {
			out = append(out, item)
		}
	}
	return out
}

// grantEntry is an entry of a grant in YAML's flow style: a value, or items of a
// list.
type grantEntry struct {
	key   string
	value string
	items []string
}

func grantEntries(p plugin.Permissions) (list []grantEntry) {
	for _, word := range grantwords.Words(plugin.Permissions{State: p.State, KV: p.KV, Messages: p.Messages, Model: p.Model, Queue: p.Queue, Clock: p.Clock, Random: p.Random}) {
		key, value, isLevel := strings.Cut(word, "=")
		if !isLevel {
			value = "true"
		}
		list = append(list, grantEntry{key: key, value: value})
	}
	if len(p.Tools) > 0 {
		e := grantEntry{key: "tools"}
		for _, name := range p.Tools {
			e.items = append(e.items, strconv.Quote(name))
		}
		list = append(list, e)
	}
	if len(p.HTTP) > 0 {
		e := grantEntry{key: "http"}
		for _, h := range p.HTTP {
			e.items = append(e.items, strconv.Quote(httpGrant(h).String()))
		}
		list = append(list, e)
	}
	if len(p.Secrets) > 0 {
		e := grantEntry{key: "secrets"}
		for _, s := range p.Secrets {
			hosts := make([]string, len(s.Hosts))
			for i, h := range s.Hosts {
				hosts[i] = strconv.Quote(h)
			}
			e.items = append(e.items, fmt.Sprintf("{name: %s, hosts: [%s]}", strconv.Quote(s.Name), strings.Join(hosts, ", ")))
		}
		list = append(list, e)
	}
	if len(p.Operations) > 0 {
		list = append(list, grantEntry{key: "operations", items: p.Operations})
	}
	return list
}

// flow writes the entry's value.
func (g grantEntry) flow() string {
	if g.items != nil {
		return "[" + strings.Join(g.items, ", ") + "]"
	}
	return g.value
}

// edit changes a document's tree. After its first error it does nothing.
type edit struct {
	config  *Config
	changed bool
	err     error
}

// set follows path down from a map and sets entries there. It makes missing maps on the
// way.
func (e *edit) set(m *ast.MappingNode, path []string, entries []grantEntry) {
	if len(path) == 0 {
		for _, entry := range entries {
			e.setEntry(m, entry)
		}
		return
	}
	v := entryOf(m, path[0])
	if v == nil || isEmpty(v.Value) {
		all := make([]string, len(entries))
		for i, entry := range entries {
			all[i] = entry.key + ": " + entry.flow()
		}
		value := "{" + strings.Join(all, ", ") + "}"
		if v == nil && !m.IsFlowStyle {
			e.put(m, path[0], nestedBlock(path[1:], value))
			return
		}
		for _, key := range slices.Backward(path[1:]) {
			value = "{" + yamlKey(key) + ": " + value + "}"
		}
		e.put(m, path[0], value)
		return
	}
	next, isMap := plain(v.Value).(*ast.MappingNode)
	if !isMap {
		e.fail(v.Value, "a map is due here")
		return
	}
	e.set(next, path[1:], entries)
}

// nestedBlock writes a value below the keys of a path, a line each.
func nestedBlock(path []string, value string) string {
	for i, key := range slices.Backward(path) {
		value = "\n" + strings.Repeat("  ", i+1) + yamlKey(key) + ": " + value
	}
	return value
}

func (e *edit) setEntry(m *ast.MappingNode, entry grantEntry) {
	v := entryOf(m, entry.key)
	if v == nil || isEmpty(v.Value) {
		e.put(m, entry.key, entry.flow())
		return
	}
	if entry.items == nil {
		if scalar(v.Value) != entry.value {
			e.put(m, entry.key, entry.value)
		}
		return
	}
	list, isList := plain(v.Value).(*ast.SequenceNode)
	if !isList {
		e.fail(v.Value, "a list is due here")
		return
	}
	for _, item := range entry.items {
		e.add(list, item)
	}
}

// put sets a key of a map to a value in flow style.
func (e *edit) put(m *ast.MappingNode, key, value string) {
	made := e.parse(yamlKey(key) + ": " + value)
	if e.err != nil {
		return
	}
	e.changed = true
	if v := entryOf(m, key); v != nil {
		comment := v.Value.GetComment()
		v.Value = made.(*ast.MappingNode).Values[0].Value
		if comment != nil {
			e.err = v.Value.SetComment(comment)
		}
		return
	}
	m.Merge(made.(*ast.MappingNode))
}

// add appends an item to a list, if it is not there.
func (e *edit) add(list *ast.SequenceNode, item string) {
	made := e.parse("- " + item)
	if e.err != nil {
		return
	}
	items := made.(*ast.SequenceNode)
	for i, n := range list.Values {
		switch compareGrants(n, items.Values[0]) {
		case grantsAll:
			return
		case grantsLess:
			list.Values[i] = items.Values[0]
			e.changed = true
			return
		}
	}
	e.changed = true
	list.Merge(items)
}

// grantRelation is the relation of an item of a list of grants to one being added.
type grantRelation int

const (
	grantsOther grantRelation = iota // neither covers the other
	grantsAll                        // it covers the added item
	grantsLess                       // the added item covers it
)

// compareGrants compares an item of a list of servers or secrets with an added one. An
// item that is neither is grantsOther.
func compareGrants(have, add ast.Node) grantRelation {
	if sameYAML(have, add) {
		return grantsAll
	}
	if m, isMap := plain(have).(*ast.MappingNode); isMap {
		a, okA := secretOf(m)
		b, okB := secretOf(add)
		return relation(okA && okB && b.Within(a), okA && okB && a.Within(b))
	}
	a, errA := grantwords.ParseHTTP(scalar(have))
	b, errB := grantwords.ParseHTTP(scalar(add))
	read := errA == nil && errB == nil
	return relation(read && b.Within(a), read && a.Within(b))
}

func relation(all, less bool) grantRelation {
	switch {
	case all:
		return grantsAll
	case less:
		return grantsLess
	}
	return grantsOther
}

func secretOf(n ast.Node) (plugin.SecretAccess, bool) {
	var s SecretGrant
	err := yaml.NodeToValue(n, &s)
	return plugin.SecretAccess{Name: s.Name, Hosts: s.Hosts}, err == nil && s.Name != "" && len(s.Hosts) > 0
}

// parse reads a piece of YAML.
func (e *edit) parse(text string) ast.Node {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(file.Docs) == 0 {
		e.err = host.Errorf(host.Internal, "write %q as YAML: %w", text, err)
		return nil
	}
	return file.Docs[0].Body
}

func (e *edit) fail(n ast.Node, what string) {
	e.err = e.config.errorAt(n.GetToken(), "%s", what)
}

func entryOf(m *ast.MappingNode, key string) *ast.MappingValueNode {
	for _, v := range m.Values {
		if tk := v.Key.GetToken(); tk != nil && tk.Value == key {
			return v
		}
	}
	return nil
}

// isEmpty recognises a key without a value, and {}.
func isEmpty(n ast.Node) bool {
	switch n := plain(n).(type) {
	case nil, *ast.NullNode:
		return true
	case *ast.MappingNode:
		return len(n.Values) == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	}
	return false
}

// sameYAML reports whether two nodes are the same value, however written.
func sameYAML(a, b ast.Node) bool {
	x, isScalar := plain(a).(ast.ScalarNode)
	y, alsoScalar := plain(b).(ast.ScalarNode)
	if isScalar && alsoScalar {
		return x.GetValue() == y.GetValue()
	}
	return strings.ReplaceAll(a.String(), "'", `"`) == strings.ReplaceAll(b.String(), "'", `"`)
}

// yamlKey writes a key, quoted if it could be taken for something else.
func yamlKey(key string) string {
	if toolNameLike(key) {
		return key
	}
	return strconv.Quote(key)
}

// toolNameLike recognises words of letters, digits, _ and - that begin with a
// letter and mean nothing else in YAML.
func toolNameLike(s string) bool {
	if s == "" || slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '_' || r == '-')) {
			return false
		}
	}
	return true
}
