package schema

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
)

// The work of some steps. Texts are read at bytesPerWork, compared and looked up
// at bytesPerCompare.
const (
	ruleWork        = 3
	trackWork       = 3  // to remember one member or item, and to look for it
	keepWork        = 24 // to keep one item in a table that grows
	exactWork       = 8  // a number that is compared as a fraction, and as much again for each digitsPerWork digits
	digitsPerWork   = 4
	bytesPerWork    = 8
	bytesPerCompare = 128
)

// checker checks one value against a schema. A first run finds whether the value fits,
// and stops at the first fault; a second one, for values that do not fit, finds the
// faults.
type checker struct {
	work  workMeter
	steps int

	explaining bool
	quiet      int      // above 0: faults here are not faults of the value
	path       []string // of the current value, while explaining
	faults     faultList

	evaluated evaluatedParts
}

// fits reports whether a value fits a rule. The error says why that cannot be
// determined.
func (c *checker) fits(r *rule, v any) (ok bool, err error) {
	c.reset()
	err = stopped(func() { ok = c.check(r, v, false) })
	return ok, err
}

// explain returns the faults of a value that does not fit, or those that it finds
// before its work is used up.
func (c *checker) explain(r *rule, v any) (*faultList, error) {
	c.reset()
	c.work.left, c.explaining = explainWork, true
	err := stopped(func() { c.check(r, v, false) })
	if _, spent := err.(TooManyChecksError); spent {
		c.faults.cut, err = true, nil
	}
	return &c.faults, err
}

func (c *checker) reset() { *c = checker{work: c.work} }

// continues reports whether the check of a value with a fault continues.
func (c *checker) continues() bool { return c.explaining && c.quiet == 0 }

// fault notes a fault of the current value. It returns false.
func (c *checker) fault(kind func() jsonschema.ErrorKind) bool {
	if c.continues() {
		c.work.spend(len(c.path))
		c.faults.add(c.path, kind)
	}
	return false
}

// check checks a value against a rule. tracked says that a rule above it asks which
// members and items were evaluated.
func (c *checker) check(r *rule, v any, tracked bool) bool {
	c.work.spend(ruleWork)
	if r.verdict != nil {
		return *r.verdict || c.fault(falseFault)
	}
	if c.steps++; c.steps > maxNestedRules {
		panic(workStop{TooManyChecksError{"the schema and the value are nested too deep in each other"}})
	}
	mark := c.evaluated.mark()
	ok := c.apply(r, v, tracked || r.tracks(), mark)
	if c.steps--; !ok || !tracked {
		c.evaluated.cut(mark)
	}
	return ok
}

func (c *checker) apply(r *rule, v any, tracked bool, mark evaluatedMark) bool {
	if !c.work.isOfType(r.types, v) {
		return c.fault(func() jsonschema.ErrorKind { return typeFault(r.types, v) })
	}
	if r.constant != nil && !c.work.among(r.constant, v) {
		return c.fault(func() jsonschema.ErrorKind { return constFault(r.constant, v) })
	}
	if r.enum != nil && !c.work.among(r.enum, v) {
		return c.fault(func() jsonschema.ErrorKind { return enumFault(r.enum, v) })
	}
	if r.format != nil {
		if err := c.work.format(r.format, v); err != nil {
			return c.fault(func() jsonschema.ErrorKind { return formatFault(r.format, v, err) })
		}
	}
	ok := true
	if r.ref != nil {
		ok = c.check(r.ref, v, tracked)
		if r.onlyRef || !ok && !c.continues() {
			return ok
		}
	}
	switch v := v.(type) {
	case map[string]any:
		ok = (r.object == nil || c.object(r.object, v, tracked)) && ok
	case []any:
		ok = (r.array == nil || c.array(r.array, v, tracked)) && ok
	case string:
		ok = (r.text == nil || c.text(r.text, v)) && ok
	case json.Number:
		ok = (r.number == nil || c.number(r.number, v)) && ok
	}
	if r.combined && (ok || c.continues()) {
		ok = c.combine(r, v, tracked) && ok
	}
	if !r.tracks() || !ok && !c.continues() {
		return ok
	}
	return c.checkUnevaluated(r, v, mark) && ok
}

func (c *checker) text(r *textRule, text string) bool {
	ok := true
	if r.least != nil || r.most != nil {
		c.work.spend(1 + len(text)/bytesPerWork)
		n := utf8.RuneCountInString(text)
		if r.least != nil && n < *r.least {
			ok = c.fault(func() jsonschema.ErrorKind { return minLengthFault(n, *r.least) })
		}
		if r.most != nil && n > *r.most {
			ok = c.fault(func() jsonschema.ErrorKind { return maxLengthFault(n, *r.most) })
		}
	}
	if r.pattern == nil || !ok && !c.continues() {
		return ok
	}
	if !c.work.matches(r.pattern, text) {
		ok = c.fault(func() jsonschema.ErrorKind { return patternFault(text, r.pattern) })
	}
	return ok
}

// wholeDigits is how many digits surely fit an int64.
const wholeDigits = 18

func (c *checker) number(r *numberRule, n json.Number) bool {
	ok := true
	var exact *big.Rat
	fraction := func() *big.Rat {
		if exact == nil {
			c.work.spend(fractionWork(n))
			exact, _ = new(big.Rat).SetString(string(n))
		}
		return exact
	}
	whole, isWhole := int64(0), false
	if len(n) <= wholeDigits && isDigits(n) {
		w, err := strconv.ParseInt(string(n), 10, 64)
		whole, isWhole = w, err == nil
	}
	for _, b := range r.bounds {
		var compared int
		if isWhole && b.whole != nil {
			c.work.spend(1)
			compared = cmp.Compare(whole, *b.whole)
		} else {
			c.work.spend(fractionWork(n))
			compared = fraction().Cmp(b.limit)
		}
		if !b.fits(compared) {
			if ok = c.fault(func() jsonschema.ErrorKind { return b.kind(fraction(), b.limit) }); !c.continues() {
				return false
			}
		}
	}
	if r.multipleOf != nil {
		c.work.spend(2 * fractionWork(n))
		if !new(big.Rat).Quo(fraction(), r.multipleOf).IsInt() {
			ok = c.fault(func() jsonschema.ErrorKind { return multipleOfFault(fraction(), r.multipleOf) })
		}
	}
	return ok
}

func (c *checker) object(r *objectRule, obj map[string]any, tracked bool) bool {
	ok := true
	if r.least != nil && len(obj) < *r.least {
		ok = c.fault(func() jsonschema.ErrorKind { return minPropertiesFault(len(obj), *r.least) })
	}
	if r.most != nil && len(obj) > *r.most {
		ok = c.fault(func() jsonschema.ErrorKind { return maxPropertiesFault(len(obj), *r.most) })
	}
	if !ok && !c.continues() {
		return false
	}
	if missing := c.missing(obj, r.required); missing != nil {
		ok = c.fault(func() jsonschema.ErrorKind { return requiredFault(missing) })
	}
	if !ok && !c.continues() {
		return false
	}
	if ok = c.members(r, obj, tracked) && ok; !ok && !c.continues() {
		return false
	}
	if ok = c.ownNames(r.ownNames, obj) && ok; !ok && !c.continues() {
		return false
	}
	return c.dependencies(r.dependencies, obj, tracked) && ok
}

// missing returns the first names that an object does not have, nil if it has all.
func (c *checker) missing(obj map[string]any, names []string) (missing []string) {
	for _, name := range names {
		c.work.spend(2 + len(name)/bytesPerCompare)
		if _, ok := obj[name]; ok {
			continue
		}
		if missing = append(missing, name); !c.continues() || len(missing) > maxListed {
			break
		}
	}
	return missing
}

func (c *checker) members(r *objectRule, obj map[string]any, tracked bool) bool {
	if r.others == nil && !r.noOthers && len(r.patterns) == 0 && len(r.names) <= len(obj) {
		return c.knownMembers(r, obj, tracked)
	}
	if len(r.names) == 0 && r.others == nil && !r.noOthers && len(r.patterns) == 0 {
		return true
	}
	ok := true
	var strangers []string
	for name, v := range c.eachMember(obj) {
		c.work.spend(2 + len(name)/bytesPerCompare)
		known, fits := c.member(r, name, v)
		if !known && r.noOthers {
			strangers, fits = append(strangers, name), false
		}
		if known && tracked {
			c.markMember(name)
		}
		if ok = ok && fits; !ok && (!c.continues() || len(strangers) > maxListed) {
			break
		}
	}
	if strangers != nil {
		c.fault(func() jsonschema.ErrorKind { return strangersFault(strangers) })
	}
	if tracked && (r.others != nil || r.noOthers) {
		c.markSpan(0, math.MaxInt)
	}
	return ok
}

// eachMember goes through an object, in the order of its names while explaining.
func (c *checker) eachMember(obj map[string]any) func(func(string, any) bool) {
	if !c.continues() {
		return maps.All(obj)
	}
	return func(yield func(string, any) bool) {
		c.work.spend(len(obj) * bytesPerWork)
		for _, name := range jsondoc.SortedNames(obj) {
			if !yield(name, obj[name]) {
				return
			}
		}
	}
}

// knownMembers checks the members that a rule names, and no others.
func (c *checker) knownMembers(r *objectRule, obj map[string]any, tracked bool) bool {
	ok := true
	for _, name := range r.names {
		c.work.spend(2 + len(name)/bytesPerCompare)
		v, has := obj[name]
		if !has {
			continue
		}
		if tracked {
			c.markMember(name)
		}
		if ok = c.below(r.members[name], v, name) && ok; !ok && !c.continues() {
			return false
		}
	}
	return ok
}

// member checks one member against the rules for its name. known is false if the rule
// has none for it.
func (c *checker) member(r *objectRule, name string, v any) (known, ok bool) {
	ok = true
	part, known := r.members[name]
	if known {
		ok = c.below(part, v, name)
	}
	for i := range r.patterns {
		if !ok && !c.continues() {
			return true, false
		}
		if c.work.matches(r.patterns[i].name, name) {
			known = true
			ok = c.below(r.patterns[i].rule, v, name) && ok
		}
	}
	if !known && r.others != nil {
		known, ok = true, c.below(r.others, v, name)
	}
	return known, ok
}

func (c *checker) ownNames(r *rule, obj map[string]any) bool {
	if r == nil {
		return true
	}
	path := c.path
	c.path = nil // the library's faults of names have no path
	ok := true
	for name := range c.eachMember(obj) {
		c.work.spend(2)
		mark := c.evaluated.mark()
		ok = c.check(r, name, false) && ok
		if c.evaluated.cut(mark); !ok && !c.continues() {
			break
		}
	}
	c.path = path
	return ok
}

func (c *checker) dependencies(list []dependency, obj map[string]any, tracked bool) bool {
	ok := true
	for i := range list {
		d := &list[i]
		c.work.spend(2 + len(d.member)/bytesPerCompare)
		if _, has := obj[d.member]; !has {
			continue
		}
		if missing := c.missing(obj, d.required); missing != nil {
			ok = c.fault(func() jsonschema.ErrorKind { return d.kind(d.member, listed(missing)) })
		}
		if d.rule != nil {
			ok = c.check(d.rule, obj, tracked) && ok
		}
		if !ok && !c.continues() {
			return false
		}
	}
	return ok
}

func (c *checker) array(r *arrayRule, list []any, tracked bool) bool {
	ok := true
	if r.least != nil && len(list) < *r.least {
		ok = c.fault(func() jsonschema.ErrorKind { return minItemsFault(len(list), *r.least) })
	}
	if r.most != nil && len(list) > *r.most {
		ok = c.fault(func() jsonschema.ErrorKind { return maxItemsFault(len(list), *r.most) })
	}
	if !ok && !c.continues() {
		return false
	}
	if r.unique {
		if i, j := c.work.twins(list); j > 0 {
			ok = c.fault(func() jsonschema.ErrorKind { return uniqueItemsFault(i, j) })
		}
	}
	if !ok && !c.continues() {
		return false
	}
	if ok = c.items(r, list, tracked) && ok; !ok && !c.continues() {
		return false
	}
	return (r.contains == nil || c.contains(r, list, tracked)) && ok
}

func (c *checker) items(r *arrayRule, list []any, tracked bool) bool {
	ok := true
	first := min(len(r.first), len(list))
	for i, v := range list[:first] {
		if ok = c.item(r.first[i], v, i) && ok; !ok && !c.continues() {
			return false
		}
	}
	if r.noRest && first < len(list) {
		ok = c.fault(func() jsonschema.ErrorKind { return additionalItemsFault(len(list) - first) })
	}
	if r.rest != nil {
		for i, v := range list[first:] {
			if ok = c.item(r.rest, v, first+i) && ok; !ok && !c.continues() {
				return false
			}
		}
	}
	switch {
	case !tracked:
	case r.all:
		c.markSpan(0, len(list))
	case first > 0:
		c.markSpan(0, first)
	}
	return ok
}

// contains counts the elements that fit. Only their number can be a fault.
func (c *checker) contains(r *arrayRule, list []any, tracked bool) bool {
	var matched []int
	n := 0
	c.quiet++
	for i, v := range list {
		if !c.item(r.contains, v, i) {
			continue
		}
		n++
		if tracked && r.containsMarks {
			c.markSpan(i, i+1)
		}
		if len(matched) < maxListed {
			matched = append(matched, i)
		}
		if !tracked && (r.greatest == nil && n >= r.fewest || r.greatest != nil && n > *r.greatest) {
			break // more matches cannot change the result
		}
	}
	c.quiet--
	switch {
	case n < r.fewest && r.fewestGiven:
		return c.fault(func() jsonschema.ErrorKind { return minContainsFault(matched, n, r.fewest) })
	case n < r.fewest:
		return c.fault(containsFault)
	case r.greatest != nil && n > *r.greatest:
		return c.fault(func() jsonschema.ErrorKind { return maxContainsFault(*r.greatest) })
	}
	return true
}

// item checks an element against a rule.
func (c *checker) item(r *rule, v any, i int) bool {
	if c.continues() {
		return c.below(r, v, strconv.Itoa(i))
	}
	return c.below(r, v, "")
}

// below checks a value within the current one against a rule.
func (c *checker) below(r *rule, v any, name string) bool {
	named := c.continues()
	if named {
		c.path = append(c.path, name)
	}
	mark := c.evaluated.mark()
	ok := c.check(r, v, false)
	c.evaluated.cut(mark)
	if named {
		c.path = c.path[:len(c.path)-1]
	}
	return ok
}

// combine applies the rules that combine others: allOf, anyOf, if and the like.
func (c *checker) combine(r *rule, v any, tracked bool) bool {
	ok := true
	if r.not != nil && c.silently(r.not, v, tracked) {
		if ok = c.fault(notFault); !c.continues() {
			return false
		}
	}
	for _, part := range r.allOf {
		if ok = c.check(part, v, tracked) && ok; !ok && !c.continues() {
			return false
		}
	}
	if len(r.anyOf) > 0 {
		if ok = c.anyOf(r.anyOf, v, tracked) && ok; !ok && !c.continues() {
			return false
		}
	}
	if len(r.oneOf) > 0 {
		if ok = c.oneOf(r.oneOf, v, tracked) && ok; !ok && !c.continues() {
			return false
		}
	}
	if r.when == nil {
		return ok
	}
	branch := r.or
	if c.silently(r.when, v, tracked) {
		branch = r.then
	}
	return (branch == nil || c.check(branch, v, tracked)) && ok
}

// silently is check for a value that may fit or not.
func (c *checker) silently(r *rule, v any, tracked bool) bool {
	c.quiet++
	ok := c.check(r, v, tracked)
	c.quiet--
	return ok
}

func (c *checker) anyOf(parts []*rule, v any, tracked bool) (ok bool) {
	mark := c.faults.mark()
	for _, part := range parts {
		if ok = c.check(part, v, tracked) || ok; ok && !tracked {
			break // every part that fits adds the members and items that it evaluated
		}
	}
	if ok {
		c.faults.restore(mark)
	}
	return ok
}

func (c *checker) oneOf(parts []*rule, v any, tracked bool) bool {
	mark := c.faults.mark()
	matched := -1
	for i, part := range parts {
		if matched < 0 {
			if c.check(part, v, tracked) {
				matched = i
				c.faults.restore(mark)
			}
			continue
		}
		if c.silently(part, v, tracked) {
			return c.fault(func() jsonschema.ErrorKind { return oneOfFault(matched, i) })
		}
	}
	return matched >= 0
}
