package jsondoc

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Member is a member that [DecodeMembers] reads.
type Member struct {
	name     string
	required bool
	into     *json.RawMessage
}

// Required returns a member that an object must have.
func Required(name string, into *json.RawMessage) Member { return Member{name, true, into} }

// Allowed returns a member that an object may have.
func Allowed(name string, into *json.RawMessage) Member { return Member{name, false, into} }

// DecodeMembers reads an object that has these members and no others, each at
// most once. The values are copies.
func DecodeMembers(b []byte, members ...Member) error {
	if err := Check(b); err != nil {
		return err
	}
	err := EachMember(b, func(name string, value []byte) error {
		for _, m := range members {
			if m.name != name {
				continue
			}
			if *m.into != nil {
				return fmt.Errorf("%s is given twice", name)
			}
			*m.into = bytes.Clone(value)
			return nil
		}
		return fmt.Errorf("it has a member %.40q that this version does not know", name)
	})
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.required && *m.into == nil {
			return fmt.Errorf("it has no %s", m.name)
		}
	}
	return nil
}

// MemberSet holds which of up to 64 known members an object has had so far.
type MemberSet uint64

// Add notes a member and refuses a known name that comes twice: two readers might
// choose different values, and so bypass a filter.
func (s *MemberSet) Add(name string, known ...string) error {
	for i, k := range known {
		if k != name {
			continue
		}
		if *s&(1<<i) != 0 {
			return fmt.Errorf("%s is given twice", name)
		}
		*s |= 1 << i
	}
	return nil
}

// DecodeString reads the JSON string v, the value of the member that is named.
func DecodeString(name string, v []byte, into *string) error {
	s, ok := Unquote(v)
	if !ok {
		return fmt.Errorf("%s is not a string", name)
	}
	*into = s
	return nil
}
