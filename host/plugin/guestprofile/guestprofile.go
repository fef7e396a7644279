// Package guestprofile sums the instructions of a plugin's calls by function. A [Profile] is
// given to calls (plugin.CallOptions.Profile) of a runtime that compiles for it
// (plugin.Options.ProfileCalls), which reports each function that the guest enters and
// leaves. [Profile.WriteSVG] draws the sums as a flame graph; package pprofile writes them
// for "go tool pprof".
//
// The sums are exact: all functions together have the instructions that the calls cost. The
// cost of a stretch of code that calls another function can count for that stretch before
// the call or behind it, as the meter charges it.
//
// Guests choose their functions, so a profile is bounded: it tells 16,384 call paths apart, of
// at most 256 functions, with names of 100 bytes. Instructions of other paths count for the
// longest beginning that the profile has. Any number of calls may share a profile.
package guestprofile

import (
	"iter"
	"slices"
	"strings"
	"sync"
)

// The bounds of a profile. A guest chooses its functions, their names and how deep they
// call each other.
const (
	// maxNodes is how many call paths a profile tells apart. The instructions of other
	// paths count for the longest beginning of them that it has.
	maxNodes = 1 << 14
	// maxPath is how many functions a call path has. Deeper ones count for the last of them.
	maxPath = 256
)

// Function is a function that a guest enters.
type Function struct {
	Name   string
	OfHost bool // the guest imports it
}

// outside is where the instructions of a call count that no function has: the bytes of its
// answer that the host reads when the guest has returned.
var outside = Function{Name: "(host)", OfHost: true}

// Profile sums the instructions of calls by call path. It is safe for concurrent use.
type Profile struct {
	mu    sync.Mutex
	root  node
	nodes int
	calls int64
}

// New returns an empty profile.
func New() *Profile { return &Profile{} }

// node is a call path: the function that it ends with, and the paths that are longer by one.
type node struct {
	own     int64 // instructions of the function itself
	entered int64
	called  map[Function]*node
}

// Calls returns how many calls the profile has.
func (p *Profile) Calls() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Instructions returns the instructions of all calls together.
func (p *Profile) Instructions() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.root.total()
}

func (n *node) total() int64 {
	sum := n.own
	for _, c := range n.called {
		sum += c.total()
	}
	return sum
}

// Stack is a call path with what it has used.
type Stack struct {
	Functions    []Function // the outermost first
	Instructions int64      // of the innermost itself, without those that it calls
	Entered      int64      // how often the path was entered
}

// Stacks yields the call paths of a profile, each behind the shorter ones that it begins
// with, in the order of their functions' names. Their instructions add up to
// [Profile.Instructions]. What calls used outside of all functions is the path "(host)".
func (p *Profile) Stacks() iter.Seq[Stack] {
	return func(yield func(Stack) bool) {
		paths := p.paths()
		for i, at := range paths {
			s := Stack{Functions: make([]Function, at.length), Instructions: at.own, Entered: at.entered}
			for n, from := at.length-1, i; n >= 0; n-- {
				s.Functions[n] = paths[from].last
				from = paths[from].parent
			}
			if !yield(s) {
				return
			}
		}
	}
}

// path is a call path in a list that has the path without its last function, too.
type path struct {
	parent, length int // parent is a position in the list
	last           Function
	own, entered   int64
}

// paths copies the call paths, so that no caller runs while the profile is locked.
func (p *Profile) paths() (list []path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.root.own > 0 {
		list = append(list, path{length: 1, last: outside, own: p.root.own, entered: p.calls})
	}
	var walk func(n *node, parent, length int)
	walk = func(n *node, parent, length int) {
		for _, f := range n.functions() {
			c := n.called[f]
			list = append(list, path{parent: parent, length: length + 1, last: f, own: c.own, entered: c.entered})
			walk(c, len(list)-1, length+1)
		}
	}
	walk(&p.root, 0, 0)
	return list
}

// functions returns the functions that a path's last function calls, in the order of their
// names.
func (n *node) functions() []Function {
	list := make([]Function, 0, len(n.called))
	for f := range n.called {
		list = append(list, f)
	}
	slices.SortFunc(list, compareFunctions)
	return list
}

func compareFunctions(a, b Function) int {
	switch {
	case a.Name != b.Name:
		return strings.Compare(a.Name, b.Name)
	case a.OfHost:
		return 1
	}
	return -1
}
