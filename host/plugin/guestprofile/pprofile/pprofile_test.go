package pprofile_test

import (
	"bytes"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/agenthost/agenthost/host/plugin/guestprofile"
	"github.com/agenthost/agenthost/host/plugin/guestprofile/pprofile"
)

// recursion returns a profile of functions that call each other.
func recursion() *guestprofile.Profile {
	p := guestprofile.New()
	c := p.Begin()
	for i, name := range []string{"tool", "walk", "walk", "</title>"} {
		c.Enter(guestprofile.Named(name, 0), int64(10*i))
	}
	c.Enter(guestprofile.Imported("agenthost_v1", "log"), 50)
	c.Return(100)
	c.Return(107)
	return p
}

// What pprof reads has the instructions of the profile, the innermost function of each
// sample first, and each function once.
func TestPprofReadsTheInstructionsOfAProfile(t *testing.T) {
	var file bytes.Buffer
	if err := pprofile.Write(&file, recursion()); err != nil {
		t.Fatal(err)
	}
	read, err := profile.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	value, sum := 1, int64(0)
	if read.SampleType[value].Type != "instructions" || read.DefaultSampleType != "instructions" {
		t.Fatalf("the samples are %+v, by default %s", read.SampleType, read.DefaultSampleType)
	}
	deepest := read.Sample[0]
	for _, s := range read.Sample {
		sum += s.Value[value]
		if len(s.Location) > len(deepest.Location) {
			deepest = s
		}
	}
	if sum != 107 || len(read.Function) != 5 {
		t.Errorf("%d instructions of %d functions, want 107 of 5", sum, len(read.Function))
	}
	inner, outer := deepest.Location[0].Line[0].Function, deepest.Location[4].Line[0].Function
	if inner.Name != "agenthost_v1.log" || inner.Filename != "host" || outer.Name != "tool" || outer.Filename != "guest" || deepest.Value[value] != 50 {
		t.Errorf("the deepest sample %v goes from %+v to %+v", deepest.Value, outer, inner)
	}
}

func TestProfileOfNothingIsOne(t *testing.T) {
	var file bytes.Buffer
	if err := pprofile.Write(&file, guestprofile.New()); err != nil {
		t.Fatal(err)
	}
	if read, err := profile.Parse(&file); err != nil || len(read.Sample) != 0 {
		t.Errorf("a profile of nothing is read as %v, %v", read, err)
	}
}
