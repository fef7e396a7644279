package toolfault

import "github.com/agenthost/agenthost/host/fault"

// MaxName is how many bytes the name of a tool has at most.
const MaxName = 64

// CheckName refuses names of tools that not every provider takes, with code invalid_argument.
func CheckName(name string) error {
	ok := name != "" && len(name) <= MaxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	if !ok {
		return fault.Errorf(fault.InvalidArgument, "tool name %q", name).
			WithHint("use 1 to %d letters, digits, _ and -: providers take nothing else", MaxName)
	}
	return nil
}
