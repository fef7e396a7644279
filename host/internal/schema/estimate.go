package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// Before the library compiles a schema its work is estimated: the library cannot be
// stopped, it goes through all parts for each part, and each part has its place
// written out from the top.

// maxSchemaNesting bounds how deep the parts of a schema stand within each other in
// one document. References are not followed. Schemas that generators make of whole
// services reach 12.
const maxSchemaNesting = 64

// maxCompileWork bounds what a schema takes to compile, in nanoseconds as the
// estimate has them.
const maxCompileWork = 3_000_000_000

// What the library's steps take, in nanoseconds.
const (
	partTime     = 15_000 // to hold a part to the rules for schemas, and to compile it
	valueTime    = 300    // to read one more value of the schema
	lookTime     = 5      // to look at one part on the way to another
	placeTime    = 50     // to write out one byte of the places of parts
	comparedSize = 32     // bytes of a place that are compared in a nanosecond
	baseTime     = 60     // to look at one part that has an address of its own
	keptTime     = 200    // to keep one part where a reference leads to
	addressTime  = 5      // to read one byte of an address
	nodeTime     = 100    // to compare one value in a list whose values must differ
	numberTime   = 8_000  // the same of a number: both are read as fractions
	equalSize    = 32     // bytes of a text that are compared in a nanosecond
)

// maxPairs is how long a list is of which the library compares each value with each
// other one.
const maxPairs = 20

// sizeEstimate is what the work for a schema follows from.
type sizeEstimate struct {
	parts   int // schemas within it, itself included
	values  int // JSON values
	places  int // bytes of the places of all parts
	anchors int
	refs    int
	named   int // bytes of all references and anchors
	bases   int // $id
	address int // bytes of the longest $id
	strays  int // places that references lead to and that no keyword makes a part
	deepest int
	lists   int  // nanoseconds to compare the values of lists of names
	enums   int  // and those of enum
	oldEnum bool // a draft is in use in which they must differ, too

	beyond  string   // a keyword whose count no int holds
	roots   []any    // what has an $id, within the document
	targets []string // JSON pointers of references
}

// estimate refuses a schema that is nested too deep or takes too long to
// compile.
func estimate(doc any) error {
	s := newSizeEstimate(doc)
	if s.deepest > maxSchemaNesting {
		return fmt.Errorf("its parts stand within each other deeper than %d; use $defs and $ref", maxSchemaNesting)
	}
	if s.beyond != "" {
		return fmt.Errorf("%s is more than %d: leave it out", s.beyond, math.MaxInt)
	}
	if s.compareWork() > maxCompileWork/2 {
		return fmt.Errorf("it takes too long to compile: the numbers, lists and objects in its enums, or in lists of names, have to be compared with each other; " +
			"in an enum they are not if $schema is of draft 2020-12")
	}
	if s.work() > maxCompileWork {
		return fmt.Errorf("it takes too long to compile: it has %d parts, %d references and %d addresses of its own", s.parts, s.refs, s.bases)
	}
	return nil
}

// newSizeEstimate adds up a schema, with all that its references lead to.
func newSizeEstimate(doc any) *sizeEstimate {
	s := &sizeEstimate{}
	s.part(doc, 1, 0)
	seen := map[string]bool{}
	for len(s.targets) > 0 && s.work() <= maxCompileWork {
		target := s.targets[len(s.targets)-1]
		s.targets = s.targets[:len(s.targets)-1]
		if seen[target] {
			continue
		}
		seen[target] = true
		for _, root := range append(s.roots[:len(s.roots):len(s.roots)], doc) {
			s.named += len(target)
			if v, stray := strayAt(root, target); stray {
				s.strays++
				s.part(v, 1, len(target))
			}
		}
	}
	return s
}

// work estimates what the library takes, in nanoseconds.
func (s *sizeEstimate) work() int {
	looks := s.parts + s.refs
	return s.compareWork() + s.parts*partTime + s.values*valueTime + s.places*placeTime +
		looks*(s.parts*lookTime+s.places/comparedSize) + s.strays*s.parts*keptTime +
		(looks+s.anchors)*s.bases*baseTime + s.anchors*s.anchors*lookTime +
		(s.named+(s.refs+s.bases)*s.address)*addressTime
}

// compareWork is the part of it for lists whose values must differ.
func (s *sizeEstimate) compareWork() int {
	if s.oldEnum {
		return s.lists + s.enums
	}
	return s.lists
}

// strayAt returns what a JSON pointer leads to, if that is no part of the schema
// by its keywords alone.
func strayAt(doc any, pointer string) (v any, stray bool) {
	const (
		isPart = iota // the value is a schema
		isList        // its elements are, or its members
		isData
	)
	v, is := doc, isPart
	for _, token := range strings.Split(pointer, "/")[1:] {
		if decoded, err := url.PathUnescape(token); err == nil {
			token = decoded
		}
		token = pointerUnescaper.Replace(token)
		switch at := v.(type) {
		case map[string]any:
			e, ok := at[token]
			if !ok {
				return nil, false
			}
			_, list := e.([]any)
			_, members := e.(map[string]any)
			switch {
			case is == isList:
				is = isPart
			case is == isPart && (list && listKeywords[token] || members && mapKeywords[token]):
				is = isList
			case is != isPart || !partKeywords[token]:
				is = isData
			}
			v = e
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			if is == isList {
				is = isPart
			} else {
				is = isData
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, is != isPart
}

var pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

// The keywords of all drafts under which schemas stand.
var (
	partKeywords = words("not", "additionalProperties", "items", "additionalItems", "propertyNames", "contains", "if", "then", "else",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema")
	listKeywords = words("allOf", "anyOf", "oneOf", "items", "prefixItems")
	mapKeywords  = words("definitions", "$defs", "properties", "patternProperties", "dependencies", "dependentSchemas")
	refKeywords  = words("$ref", "$dynamicRef", "$recursiveRef")

	// countKeywords have counts, which the library would take as 0 if no int holds them.
	countKeywords = words("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties")
)

func words(list ...string) map[string]bool {
	set := map[string]bool{}
	for _, w := range list {
		set[w] = true
	}
	return set
}

// part adds a part of a schema at a place of so many bytes. Values that are no
// part by a keyword are only counted: where a reference leads to them they are added
// then.
func (s *sizeEstimate) part(v any, level, place int) {
	s.values++
	s.parts++
	s.places += place
	s.deepest = max(s.deepest, level)
	members, ok := v.(map[string]any)
	if !ok || level > maxSchemaNesting {
		return
	}
	for name, e := range members {
		at := place + 1 + len(name)
		list, isList := e.([]any)
		inner, isMap := e.(map[string]any)
		switch text, isText := e.(string); {
		case isText && refKeywords[name]:
			s.ref(text)
		case isText && (name == "$id" || name == "id"):
			s.bases++
			s.address = max(s.address, len(text))
			if level > 1 {
				s.roots = append(s.roots, v)
			}
		case isText && name == "$schema":
			s.oldEnum = s.oldEnum || !newDraft(text)
		case isText && (name == "$anchor" || name == "$dynamicAnchor"):
			s.anchors++
			s.named += len(text)
		case isList && listKeywords[name]:
			for i, e := range list {
				s.part(e, level+1, at+1+len(strconv.Itoa(i)))
			}
		case isMap && mapKeywords[name]:
			for name, e := range inner {
				s.part(e, level+1, at+1+len(name))
				s.names(e)
			}
		case partKeywords[name]:
			s.part(e, level+1, at)
		default:
			s.values += jsondoc.CountValues(e)
			s.compared(name, e)
			if n, ok := e.(json.Number); ok && countKeywords[name] && !fitsInt(n) {
				s.beyond = name
			}
		}
	}
}

// fitsInt reports whether an int holds a number, whatever its fraction is.
func fitsInt(n json.Number) bool {
	r, ok := new(big.Rat).SetString(string(n))
	return ok && new(big.Int).Quo(r.Num(), r.Denom()).IsInt64()
}

// compared adds what the library does to find out whether the values of a keyword's
// list differ, whether they may stand there or not.
func (s *sizeEstimate) compared(keyword string, v any) {
	switch keyword {
	case "enum":
		if list, ok := v.([]any); ok {
			s.enums += comparing(list)
		}
	case "required", "type":
		s.names(v)
	case "dependentRequired":
		members, _ := v.(map[string]any)
		for _, e := range members {
			s.names(e)
		}
	}
}

// names adds a list of names. A value that is no list is not compared.
func (s *sizeEstimate) names(v any) {
	if list, ok := v.([]any); ok {
		s.lists += comparing(list)
	}
}

// newDraft reports whether a dialect is one in which the values of enum may be
// equal.
func newDraft(dialect string) bool {
	return strings.Contains(dialect, "/2020-12/") || strings.Contains(dialect, "/2019-09/")
}

// comparing estimates what it takes to see that the values of a list differ, in
// nanoseconds. Those of a long list have a hash, but one that does not tell [[],[]]
// from [[[]]] and -1 from 1, so a list or object may be compared with each before it.
func comparing(list []any) int {
	n, others := 0, 0
	for _, v := range list {
		times := min(len(list), maxPairs) / 2
		switch v.(type) {
		case map[string]any, []any:
			others++
			times = max(times, others)
		}
		n += times * comparedTime(v)
	}
	return n
}

// comparedTime estimates what it takes to compare a value with one that is equal.
func comparedTime(v any) int {
	n := nodeTime
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			n += len(name)/equalSize + comparedTime(e)
		}
	case []any:
		for _, e := range v {
			n += comparedTime(e)
		}
	case string:
		n += len(v) / equalSize
	case json.Number:
		n = numberTime
	}
	return n
}

func (s *sizeEstimate) ref(text string) {
	s.refs++
	s.named += len(text)
	if _, at, _ := strings.Cut(text, "#"); strings.HasPrefix(at, "/") {
		s.targets = append(s.targets, at)
	}
}
