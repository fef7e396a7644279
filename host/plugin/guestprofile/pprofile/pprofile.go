// Package pprofile writes the profile of a guest in the format that "go tool pprof" opens.
//
//	calls := guestprofile.New()
//	err := pprofile.Write(os.Stdout, calls) // in a file: go tool pprof -http : guest.pb.gz
//
// Samples have two values, "entered" and "instructions"; functions have names, and no lines.
// It is a package of its own so that programs without profiles do not link pprof's format.
package pprofile

import (
	"io"

	"github.com/google/pprof/profile"

	"github.com/agenthost/agenthost/host/plugin/guestprofile"
)

// Write writes a profile, compressed as pprof wants it. Each call path is a sample with the
// instructions of its innermost function, and how often it was entered.
func Write(w io.Writer, p *guestprofile.Profile) error {
	b := builder{locations: map[guestprofile.Function]*profile.Location{}}
	b.out.SampleType = []*profile.ValueType{{Type: "entered", Unit: "count"}, {Type: "instructions", Unit: "count"}}
	b.out.DefaultSampleType = "instructions"
	for stack := range p.Stacks() {
		b.add(stack)
	}
	if err := b.out.CheckValid(); err != nil {
		return err
	}
	return b.out.Write(w)
}

// builder makes a profile of pprof.
type builder struct {
	out       profile.Profile
	locations map[guestprofile.Function]*profile.Location
}

func (b *builder) add(stack guestprofile.Stack) {
	sample := &profile.Sample{Value: []int64{stack.Entered, stack.Instructions}}
	for i := len(stack.Functions) - 1; i >= 0; i-- { // pprof has the innermost first
		sample.Location = append(sample.Location, b.location(stack.Functions[i]))
	}
	b.out.Sample = append(b.out.Sample, sample)
}

// location returns the place of a function. Guests have no lines.
func (b *builder) location(f guestprofile.Function) *profile.Location {
	if l := b.locations[f]; l != nil {
		return l
	}
	id := uint64(len(b.locations) + 1)
	file := "guest"
	if f.OfHost {
		file = "host"
	}
	fn := &profile.Function{ID: id, Name: f.Name, SystemName: f.Name, Filename: file}
	l := &profile.Location{ID: id, Line: []profile.Line{{Function: fn}}}
	b.locations[f] = l
	b.out.Function, b.out.Location = append(b.out.Function, fn), append(b.out.Location, l)
	return l
}
