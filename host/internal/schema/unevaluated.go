package schema

import "math"

// journal remembers which members and items of the current value have been evaluated,
// for unevaluatedProperties and unevaluatedItems. The entries of a part that did not
// fit are removed.
type journal struct {
	names []string
	spans []span
}

// span is items from one index up to another; of an object it means every member.
type span struct{ from, to int }

type journalMark struct{ names, spans int }

func (j *journal) mark() journalMark { return journalMark{len(j.names), len(j.spans)} }

func (j *journal) cut(m journalMark) { j.names, j.spans = j.names[:m.names], j.spans[:m.spans] }

func (c *checker) see(name string) {
	c.work.spend(trackWork)
	c.seen.names = append(c.seen.names, name)
}

func (c *checker) seeSpan(from, to int) {
	c.work.spend(trackWork)
	c.seen.spans = append(c.seen.spans, span{from, to})
}

// unseen checks the members and items that no rule has evaluated since mark against the
// rules for unevaluated ones.
func (c *checker) unseen(r *rule, v any, mark journalMark) bool {
	ok := true
	switch v := v.(type) {
	case map[string]any:
		if r.restMembers != nil {
			ok = c.unseenMembers(r.restMembers, v, mark)
			c.seeSpan(0, math.MaxInt)
		}
	case []any:
		if r.restItems != nil {
			ok = c.unseenItems(r.restItems, v, mark)
			c.seeSpan(0, len(v))
		}
	}
	return ok
}

func (c *checker) unseenMembers(r *rule, obj map[string]any, mark journalMark) bool {
	if len(c.seen.spans) > mark.spans {
		return true
	}
	names := c.seen.names[mark.names:]
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
		if ok = c.below(r, v, name) && ok; !ok && !c.goesOn() {
			return false
		}
	}
	return ok
}

func (c *checker) unseenItems(r *rule, list []any, mark journalMark) bool {
	c.work.spend(1 + len(list)/bytesPerWork)
	seen := make([]bool, len(list))
	for _, s := range c.seen.spans[mark.spans:] {
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
		if ok = c.item(r, v, i) && ok; !ok && !c.goesOn() {
			return false
		}
	}
	return ok
}
