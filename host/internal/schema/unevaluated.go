package schema

import "math"

// evaluatedParts remembers which members and items of the current value have been evaluated,
// for unevaluatedProperties and unevaluatedItems. The entries of a part that did not
// fit are removed.
type evaluatedParts struct {
	names []string
	spans []span
}

// span is items from one index up to another; of an object it means every member.
type span struct{ from, to int }

type evaluatedMark struct{ names, spans int }

func (e *evaluatedParts) mark() evaluatedMark { return evaluatedMark{len(e.names), len(e.spans)} }

func (e *evaluatedParts) cut(m evaluatedMark) {
	e.names, e.spans = e.names[:m.names], e.spans[:m.spans]
}

func (c *checker) markMember(name string) {
	c.work.spend(trackWork)
	c.evaluated.names = append(c.evaluated.names, name)
}

func (c *checker) markSpan(from, to int) {
	c.work.spend(trackWork)
	c.evaluated.spans = append(c.evaluated.spans, span{from, to})
}

// checkUnevaluated checks the members and items that no rule has evaluated since mark against the
// rules for unevaluated ones.
func (c *checker) checkUnevaluated(r *rule, v any, mark evaluatedMark) bool {
	ok := true
	switch v := v.(type) {
	case map[string]any:
		if r.restMembers != nil {
			ok = c.unevaluatedMembers(r.restMembers, v, mark)
			c.markSpan(0, math.MaxInt)
		}
	case []any:
		if r.restItems != nil {
			ok = c.unevaluatedItems(r.restItems, v, mark)
			c.markSpan(0, len(v))
		}
	}
	return ok
}

func (c *checker) unevaluatedMembers(r *rule, obj map[string]any, mark evaluatedMark) bool {
	if len(c.evaluated.spans) > mark.spans {
		return true
	}
	names := c.evaluated.names[mark.names:]
	c.work.spend(trackWork * (len(names) + len(obj)))
	seen := make(map[string]struct{}, min(len(names), len(obj)))
	for _, name := range names {
		seen[name] = struct{}{}
	}
	ok := true
	for name, v := range c.eachMember(obj) {
		if _, is := seen[name]; is {
			continue
		}
		if ok = c.below(r, v, name) && ok; !ok && !c.continues() {
			return false
		}
	}
	return ok
}

func (c *checker) unevaluatedItems(r *rule, list []any, mark evaluatedMark) bool {
	c.work.spend(1 + len(list)/bytesPerWork)
	seen := make([]bool, len(list))
	for _, s := range c.evaluated.spans[mark.spans:] {
		c.work.spend(1 + (s.to-s.from)/bytesPerWork)
		for i := s.from; i < s.to; i++ {
			seen[i] = true
		}
	}
	ok := true
	for i, v := range list {
		c.work.spend(1)
		if seen[i] {
			continue
		}
		if ok = c.item(r, v, i) && ok; !ok && !c.continues() {
			return false
		}
	}
	return ok
}
