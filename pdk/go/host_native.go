//go:build !wasip1

package pdk

// systemHost stands where a module has its host: natively there is none.
type systemHost struct{}

func (systemHost) HostCall(op string, _ Raw) (Raw, *Error) {
	return "", &Error{Code: Unavailable,
		Message: "host operation " + op + ": no host outside a module",
		Hint:    "run the handler through package pdktest, which stands in for one"}
}

func (systemHost) Log(Level, string) {}
