package plugincmd

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/internal/termtext"
)

// limitFlag is the limits of plugins that are given as NAME=VALUE.
type limitFlag struct{ limits plugin.Limits }

// limitNames are the names of all limits, as pdk/ABI.md has them.
func limitNames() (names []string) {
	t := reflect.TypeFor[plugin.Limits]()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Name)
	}
	return names
}

// String implements pflag.Value.
func (l *limitFlag) String() string { return "" }

// Type implements pflag.Value.
func (l *limitFlag) Type() string { return "NAME=VALUE" }

// Set implements pflag.Value.
func (l *limitFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("write NAME=VALUE, as in HostCalls=100")
	}
	field := reflect.ValueOf(&l.limits).Elem().FieldByName(name)
	if !field.IsValid() {
		return fmt.Errorf("there is no limit %q%s", name, limitHint(name))
	}
	n, err := limitValue(name, field.Type(), value)
	switch {
	case err != nil:
		return err
	case n < 1:
		return fmt.Errorf("%s is not more than nothing; leave it out for the default", text)
	}
	field.SetInt(n)
	return nil
}

func limitHint(name string) string {
	if near := termtext.Nearest(name, limitNames()); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return "; there are " + strings.Join(limitNames(), ", ")
}

// limitValue reads a time, a size where the name says so, or a number.
func limitValue(name string, t reflect.Type, value string) (int64, error) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(value)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time such as 500ms or 2s", value)
		}
		return int64(d), nil
	case strings.HasSuffix(name, "Bytes") || name == "CompileMemory":
		n, err := termtext.ParseBytes(value)
		if err == nil && reflect.Zero(t).OverflowInt(n) {
			err = fmt.Errorf("%q is more than there can be", value)
		}
		return n, err
	}
	n, err := strconv.ParseInt(value, 10, t.Bits())
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", value)
	}
	return n, nil
}

// completeLimit completes the NAME= of a limit.
func completeLimit(*cobra.Command, []string, string) (list []string, _ cobra.ShellCompDirective) {
	for _, name := range limitNames() {
		list = append(list, name+"=")
	}
	return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
