package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// A rule is a schema, or a part of one, in the form in which values are checked. The
// library resolves references and dialects; the host applies the rules itself, because
// the library's validator can be neither metered nor stopped, and its stack grows with
// the schema and the value.

// maxChain bounds how many rules may apply to one value within each other, by
// $ref, allOf, anyOf, oneOf, not, if, then, else and dependentSchemas. A schema that
// applies itself to the same value has no longest chain and is refused.
const maxChain = 128

// rule is the rule of one part of a schema.
type rule struct {
	verdict  *bool // the schemas true, false and {}
	types    kinds // none is any
	constant *valueSet
	enum     *valueSet
	format   *jsonschema.Format
	ref      *rule
	onlyRef  bool // before draft 2019-09, keywords beside $ref do not count

	object *objectRule // nil without such keywords, as below
	array  *arrayRule
	text   *textRule
	number *numberRule

	combined            bool // one of the rules below is set
	not                 *rule
	allOf, anyOf, oneOf []*rule
	when, then, or      *rule // if, then, else

	restMembers *rule // unevaluatedProperties
	restItems   *rule // unevaluatedItems

	chain int // the longest one from here, 0 before it is known
}

// tracks reports whether a rule asks which members and items others have evaluated.
func (r *rule) tracks() bool { return r.restMembers != nil || r.restItems != nil }

type objectRule struct {
	least, most  *int
	required     []string
	members      map[string]*rule
	names        []string // of members, sorted
	patterns     []patternRule
	others       *rule // additionalProperties
	noOthers     bool  // it is false
	ownNames     *rule // propertyNames
	dependencies []dependency
}

type patternRule struct {
	name *pattern
	rule *rule
}

// dependency is the requirement that a member's presence puts on its object.
type dependency struct {
	member   string
	required []string
	rule     *rule
	kind     func(member string, missing []string) jsonschema.ErrorKind
}

type arrayRule struct {
	least, most   *int
	unique        bool
	first         []*rule // of the first elements
	rest          *rule   // of those after them
	noRest        bool    // no more elements are allowed
	all           bool    // first and rest evaluate every element
	contains      *rule
	fewest        int // elements that must fit contains
	fewestGiven   bool
	greatest      *int
	containsMarks bool // elements that fit contains are evaluated, from draft 2020-12 on
}

type textRule struct {
	least, most *int
	pattern     *pattern
}

// numberRule checks a number against bounds. Integers of 64 bits are compared as such.
type numberRule struct {
	bounds     []numberBound
	multipleOf *big.Rat
}

type numberBound struct {
	limit *big.Rat
	whole *int64
	fits  func(compared int) bool
	kind  func(got, want *big.Rat) jsonschema.ErrorKind
}

// ruleSet makes rules of a schema that the library has compiled.
type ruleSet struct {
	rules map[*jsonschema.Schema]*rule
	queue []*jsonschema.Schema
}

// newRules returns the rule of a compiled schema.
func newRules(root *jsonschema.Schema) (*rule, error) {
	set := &ruleSet{rules: map[*jsonschema.Schema]*rule{}}
	r := set.of(root)
	for len(set.queue) > 0 {
		s := set.queue[0]
		set.queue = set.queue[1:]
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return nil, fmt.Errorf("schema: $dynamicRef and $recursiveRef are not supported; use $ref")
		}
		set.fill(set.rules[s], s)
	}
	for _, r := range set.rules {
		if _, err := r.longestChain(1); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// of returns the rule of a part, which is filled in later: parts refer to each other in
// cycles and in chains of any length.
func (set *ruleSet) of(s *jsonschema.Schema) *rule {
	if s == nil {
		return nil
	}
	r, ok := set.rules[s]
	if !ok {
		r = &rule{}
		set.rules[s] = r
		set.queue = append(set.queue, s)
	}
	return r
}

func (set *ruleSet) all(list []*jsonschema.Schema) []*rule {
	var out []*rule
	for _, s := range list {
		out = append(out, set.of(s))
	}
	return out
}

func (set *ruleSet) fill(r *rule, s *jsonschema.Schema) {
	r.verdict = s.Bool
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			r.types |= kindNames[name]
		}
	}
	if s.Const != nil {
		r.constant = newValueSet([]any{*s.Const})
	}
	if s.Enum != nil {
		r.enum = newValueSet(s.Enum.Values)
	}
	r.format = s.Format
	r.ref, r.onlyRef = set.of(s.Ref), s.Ref != nil && s.DraftVersion < 2019
	r.object, r.array = set.objectRule(s), set.arrayRule(s)
	r.text, r.number = newTextRule(s), newNumberRule(s)
	r.not, r.when, r.then, r.or = set.of(s.Not), set.of(s.If), set.of(s.Then), set.of(s.Else)
	r.allOf, r.anyOf, r.oneOf = set.all(s.AllOf), set.all(s.AnyOf), set.all(s.OneOf)
	r.combined = r.not != nil || r.when != nil || len(r.allOf)+len(r.anyOf)+len(r.oneOf) > 0
	r.restMembers, r.restItems = set.of(s.UnevaluatedProperties), set.of(s.UnevaluatedItems)
}

func (set *ruleSet) objectRule(s *jsonschema.Schema) *objectRule {
	o := &objectRule{least: s.MinProperties, most: s.MaxProperties, required: s.Required, ownNames: set.of(s.PropertyNames)}
	if len(s.Properties) > 0 {
		o.members = map[string]*rule{}
		o.names = slices.Sorted(maps.Keys(s.Properties))
	}
	for _, name := range o.names {
		o.members[name] = set.of(s.Properties[name])
	}
	for name, part := range s.PatternProperties {
		o.patterns = append(o.patterns, patternRule{name.(*pattern), set.of(part)})
	}
	slices.SortFunc(o.patterns, func(a, b patternRule) int { return strings.Compare(a.name.String(), b.name.String()) })
	switch others := s.AdditionalProperties.(type) {
	case bool:
		if o.noOthers = !others; others {
			yes := true
			o.others = &rule{verdict: &yes}
		}
	case *jsonschema.Schema:
		o.others = set.of(others)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		switch d := s.Dependencies[name].(type) {
		case []string:
			o.dependencies = append(o.dependencies, dependency{member: name, required: d, kind: dependencyFault})
		case *jsonschema.Schema:
			o.dependencies = append(o.dependencies, dependency{member: name, rule: set.of(d)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		o.dependencies = append(o.dependencies, dependency{member: name, rule: set.of(s.DependentSchemas[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		o.dependencies = append(o.dependencies, dependency{member: name, required: s.DependentRequired[name], kind: dependentRequiredFault})
	}
	if o.least == nil && o.most == nil && len(o.required)+len(o.members)+len(o.patterns)+len(o.dependencies) == 0 &&
		o.others == nil && !o.noOthers && o.ownNames == nil {
		return nil
	}
	return o
}

func (set *ruleSet) arrayRule(s *jsonschema.Schema) *arrayRule {
	a := &arrayRule{least: s.MinItems, most: s.MaxItems, unique: s.UniqueItems, contains: set.of(s.Contains), fewest: 1,
		greatest: s.MaxContains, containsMarks: s.DraftVersion >= 2020}
	if s.MinContains != nil {
		a.fewest, a.fewestGiven = *s.MinContains, true
	}
	switch items := s.Items.(type) { // before draft 2020-12
	case *jsonschema.Schema:
		a.rest, a.all = set.of(items), true
	case []*jsonschema.Schema:
		a.first = set.all(items)
		a.all = s.AdditionalItems != nil
		switch others := s.AdditionalItems.(type) {
		case bool:
			a.noRest = !others
		case *jsonschema.Schema:
			a.rest = set.of(others)
		}
	}
	if s.DraftVersion >= 2020 {
		a.first, a.rest = set.all(s.PrefixItems), set.of(s.Items2020)
		a.all = a.rest != nil
	}
	if a.least == nil && a.most == nil && !a.unique && len(a.first) == 0 && a.rest == nil && !a.noRest && !a.all && a.contains == nil {
		return nil
	}
	return a
}

func newTextRule(s *jsonschema.Schema) *textRule {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil {
		return nil
	}
	t := &textRule{least: s.MinLength, most: s.MaxLength}
	if s.Pattern != nil {
		t.pattern = s.Pattern.(*pattern)
	}
	return t
}

func newNumberRule(s *jsonschema.Schema) *numberRule {
	n := &numberRule{multipleOf: s.MultipleOf}
	add := func(limit *big.Rat, fits func(int) bool, kind func(got, want *big.Rat) jsonschema.ErrorKind) {
		if limit == nil {
			return
		}
		b := numberBound{limit: limit, fits: fits, kind: kind}
		if limit.IsInt() && limit.Num().IsInt64() {
			whole := limit.Num().Int64()
			b.whole = &whole
		}
		n.bounds = append(n.bounds, b)
	}
	add(s.Minimum, func(c int) bool { return c >= 0 }, minimumFault)
	add(s.Maximum, func(c int) bool { return c <= 0 }, maximumFault)
	add(s.ExclusiveMinimum, func(c int) bool { return c > 0 }, exclusiveMinimumFault)
	add(s.ExclusiveMaximum, func(c int) bool { return c < 0 }, exclusiveMaximumFault)
	if len(n.bounds) == 0 && n.multipleOf == nil {
		return nil
	}
	return n
}

// onPath marks a rule while the longest chain through it is looked for.
const onPath = -1

// longestChain returns how many rules may apply to one value within each other from r
// on, r included. above is the number of rules before r in the chain.
func (r *rule) longestChain(above int) (int, error) {
	switch {
	case r == nil:
		return 0, nil
	case r.chain == onPath:
		return 0, fmt.Errorf("schema: it applies to a value by way of itself: a $ref leads back to where it stands")
	case r.chain == 0 && above > maxChain:
		return 0, errLongChain()
	case r.chain > 0:
		if above+r.chain-1 > maxChain {
			return 0, errLongChain()
		}
		return r.chain, nil
	}
	r.chain = onPath
	longest := 0
	for _, next := range r.inPlace() {
		n, err := next.longestChain(above + 1)
		if err != nil {
			return 0, err
		}
		longest = max(longest, n)
	}
	r.chain = longest + 1
	return r.chain, nil
}

func errLongChain() error {
	return fmt.Errorf("schema: more than %d of its parts apply to one value within each other, by $ref, allOf and the like", maxChain)
}

// inPlace lists the rules that a rule applies to the value itself.
func (r *rule) inPlace() []*rule {
	list := slices.Concat(r.allOf, r.anyOf, r.oneOf, []*rule{r.ref, r.not, r.when, r.then, r.or})
	if r.object != nil {
		for _, d := range r.object.dependencies {
			list = append(list, d.rule)
		}
	}
	return list
}

// valueSet holds the values of enum or const: it looks up scalars in a map, and
// compares the others one after another.
type valueSet struct {
	scalars map[any]struct{}
	others  []any
	values  []any
}

func newValueSet(values []any) *valueSet {
	set := &valueSet{scalars: map[any]struct{}{}, values: values}
	for _, v := range values {
		if key, ok := scalarKey(v); ok {
			set.scalars[key] = struct{}{}
		} else {
			set.others = append(set.others, v)
		}
	}
	return set
}

// scalarKey returns a key that is the same for equal scalars.
func scalarKey(v any) (key any, ok bool) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, true
	case json.Number:
		return jsondoc.DecimalOf(v), true
	}
	return nil, false
}
