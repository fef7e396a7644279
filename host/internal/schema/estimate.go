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

// The work of compiling a schema is estimated first, because the library cannot be
// stopped, visits all parts for each part, and writes out the path of each part from
// the top.

// maxSchemaNesting bounds the nesting of the parts of a schema in one document, without
// following references. Schemas that generators make of whole services reach 12.
const maxSchemaNesting = 64

// maxCompileWork bounds the estimated nanoseconds to compile a schema.
const maxCompileWork = 3_000_000_000

// The times of the library's steps, in nanoseconds.
const (
	partTime     = 15_000 // to check a part against the meta-schema, and to compile it
	valueTime    = 300    // to read one more value of the schema
	lookTime     = 5      // to visit one part on the way to another
	placeTime    = 50     // to write one byte of the paths of parts
	comparedSize = 32     // bytes of a path that are compared in a nanosecond
	baseTime     = 60     // to visit one part that has its own address
	keptTime     = 200    // to keep one part that a reference leads to
	addressTime  = 5      // to read one byte of an address
	nodeTime     = 100    // to compare one value in a list whose values must differ
	numberTime   = 8_000  // the same of a number: both are read as fractions
	equalSize    = 32     // bytes of a text that are compared in a nanosecond
)

// maxPairs is the length up to which the library compares each value of a list with
// each other one.
const maxPairs = 20

// sizeEstimate holds the sizes from which the work for a schema is estimated.
type sizeEstimate struct {
	parts   int // schemas within it, itself included
	values  int // JSON values
	places  int // bytes of the paths of all parts
	anchors int
	refs    int
	named   int // bytes of all references and anchors
	bases   int // $id
	address int // bytes of the longest $id
	strays  int // values that references lead to and that no keyword makes a part
	deepest int
	lists   int  // nanoseconds to compare the values of lists of names
	enums   int  // and those of enum
	oldEnum bool // a draft is in use in which enum's values must differ, too

	beyond  string   // a keyword whose count no int holds
	roots   []any    // parts that have an $id, within the document
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

// newSizeEstimate adds up a schema and all values that its references lead to.
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

// work estimates how many nanoseconds the library takes.
func (s *sizeEstimate) work() int {
	looks := s.parts + s.refs
	return s.compareWork() + s.parts*partTime + s.values*valueTime + s.places*placeTime +
		looks*(s.parts*lookTime+s.places/comparedSize) + s.strays*s.parts*keptTime +
		(looks+s.anchors)*s.bases*baseTime + s.anchors*s.anchors*lookTime +
		(s.named+(s.refs+s.bases)*s.address)*addressTime
}

// compareWork is the part of work for lists whose values must differ.
func (s *sizeEstimate) compareWork() int {
	if s.oldEnum {
		return s.lists + s.enums
	}
	return s.lists
}

// strayAt returns the value at a JSON pointer, if no keyword makes it a part of the
// schema.
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

// The keywords of all drafts that contain schemas.
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

// part adds a part of a schema whose path has place bytes. Values that no keyword makes
// a part are only counted; they are added if a reference leads to them.
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

// fitsInt reports whether an int holds the integer part of a number.
func fitsInt(n json.Number) bool {
	r, ok := new(big.Rat).SetString(string(n))
	return ok && new(big.Int).Quo(r.Num(), r.Denom()).IsInt64()
}

// compared adds the library's work to find out whether the values of a keyword's list
// differ, also of values that the keyword does not allow.
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

// comparing estimates how many nanoseconds it takes to find that the values of a list
// differ. The library hashes the values of a long list, but [[],[]] and [[[]]], or -1
// and 1, have the same hash, so a list or object may be compared with each before it.
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

// comparedTime estimates the time to compare a value with an equal one.
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
