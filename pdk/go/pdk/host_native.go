//go:build !wasip1

package pdk

// systemHost stands in for a module's host, which a native program lacks.
type systemHost struct{}

func (systemHost) HostCall(op string, _ Raw) (Raw, *Error) {
	return "", &Error{Code: Unavailable,
		Message: "host operation " + op + ": no host outside a module",
		Hint:    "run the handler through package pdktest, which stands in for one"}
}

func (systemHost) Log(Level, string) {}
