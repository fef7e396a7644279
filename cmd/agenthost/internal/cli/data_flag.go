package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/datadir"
)

// DataFlag is the value of a flag --data: where data is kept. [ResolveData] reads the
// address before a command runs; a completion, before which it is not called, has an
// address only if that is given as a directory.
type DataFlag struct {
	// Own says that the flag is not taken from [datadir.Variable] where it is left out: of
	// a command whose meaning it changes.
	Own bool

	text string
	at   datadir.Address
	dir  string // for sockets, on this machine
}

// DataUsage is the help of a flag --data for a kind of data. Whose flag is not
// [DataFlag.Own] names the variable that it is taken from.
func DataUsage(of string) string {
	return of + ": a directory, or postgres://..., or env:NAME (default: $" + datadir.Variable + ")"
}

// String implements pflag.Value. It has no password.
func (f *DataFlag) String() string { return f.at.String() }

// Set implements pflag.Value. It refuses nothing, because its errors would quote the
// address.
func (f *DataFlag) Set(text string) error {
	f.text, f.at, f.dir = text, datadir.Address{}, ""
	if at, err := datadir.ParseAddress(text); err == nil && !strings.HasPrefix(text, "env:") {
		f.at, f.dir = at, at.Dir()
	}
	return nil
}

// Type implements pflag.Value.
func (f *DataFlag) Type() string { return "string" }

// At returns the address, which is memory if none is given.
func (f *DataFlag) At() datadir.Address { return f.at }

// Given reports whether data is kept.
func (f *DataFlag) Given() bool { return !f.at.InMemory() }

// Text returns the address as datadir's functions read it. It may have a password.
func (f *DataFlag) Text() string { return f.at.Text() }

// Words returns the flag for a command line that a person may type, after a space and
// without a password; "" if it need not be given.
func (f *DataFlag) Words() string { return f.at.Flag() }

// LocalDir returns the directory for the sockets of a host with the data; "" if there is
// none.
func (f *DataFlag) LocalDir() string { return f.dir }

// Resolve reads the address. It may be called again.
func (f *DataFlag) Resolve(getenv func(string) string) error {
	if f.text == "" && f.Own {
		f.at, f.dir = datadir.Address{}, ""
		return nil
	}
	at, err := datadir.ResolveAddress(f.text, getenv)
	if err != nil {
		return err
	}
	f.at, f.dir = at, at.LocalDir(getenv)
	return nil
}

// ResolveData reads the address of a command's flag --data, if it has one.
func ResolveData(c *cobra.Command, getenv func(string) string) error {
	flag := c.Flags().Lookup("data")
	if flag == nil {
		return nil
	}
	data, ok := flag.Value.(*DataFlag)
	if !ok {
		return nil
	}
	return data.Resolve(getenv)
}
