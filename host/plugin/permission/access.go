package permission

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Access is none, read or write; write includes read, "" is none.
type Access string

// The kinds of access.
const (
	None  Access = "none"
	Read  Access = "read"
	Write Access = "write"
)

// rank orders the kinds of access; "" is none, anything unknown -1.
func (a Access) rank() int { return slices.Index([]Access{None, Read, Write}, a.or(None)) }

// Allows reports whether a includes b.
func (a Access) Allows(b Access) bool { return a.rank() >= b.rank() }

func (a Access) min(b Access) Access {
	if a.rank() < b.rank() {
		return a
	}
	return b
}

// Max returns the wider of a and b.
func (a Access) Max(b Access) Access {
	if a.rank() < b.rank() {
		return b
	}
	return a
}

// UnmarshalJSON reads none, read or write.
func (a *Access) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s != "" && Access(s).rank() < 0 {
		return fmt.Errorf("access is %q, not none, read or write", s)
	}
	*a = Access(s)
	return nil
}

func (a Access) or(b Access) Access {
	if a == "" {
		return b
	}
	return a
}
