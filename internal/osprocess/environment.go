package osprocess

import "os"

// inherited are the variables of the host's environment that every process gets.
var inherited = [...]string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}

// Environment returns the variables of the host's environment that every process gets.
func Environment() []string {
	env := make([]string, 0, len(inherited))
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
