package guestprofile

// Call follows one call of a guest. It is for the goroutine of the call. A nil *Call notes
// nothing.
type Call struct {
	profile *Profile
	path    []*node
	beyond  int   // functions entered that the path does not have
	counted int64 // instructions of the call that functions have been given
}

// Begin begins to follow a call. A nil profile has calls that are nil.
func (p *Profile) Begin() *Call {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return &Call{profile: p, path: []*node{&p.root}}
}

// Enter notes that the guest enters a function, when its call has used so many instructions.
func (c *Call) Enter(f Function, spent int64) {
	if c == nil {
		return
	}
	c.profile.mu.Lock()
	defer c.profile.mu.Unlock()
	c.count(spent)
	next := c.next(f)
	if next == nil {
		c.beyond++
		return
	}
	next.entered++
	c.path = append(c.path, next)
}

// next returns the path that a function makes longer, nil if the profile has no room for it.
func (c *Call) next(f Function) *node {
	if c.beyond > 0 || len(c.path) > maxPath {
		return nil
	}
	last := c.path[len(c.path)-1]
	if next := last.called[f]; next != nil {
		return next
	}
	if c.profile.nodes == maxNodes {
		return nil
	}
	c.profile.nodes++
	next := &node{}
	if last.called == nil {
		last.called = map[Function]*node{}
	}
	last.called[f] = next
	return next
}

// Leave notes that the guest leaves the function that it has entered last.
func (c *Call) Leave(spent int64) {
	if c == nil {
		return
	}
	c.profile.mu.Lock()
	defer c.profile.mu.Unlock()
	c.count(spent)
	switch {
	case c.beyond > 0:
		c.beyond--
	case len(c.path) > 1:
		c.path = c.path[:len(c.path)-1]
	}
}

// Return notes that no function runs any more: all have returned, or the innermost has
// ended the call. It is called again when the host has done its work for the call.
func (c *Call) Return(spent int64) {
	if c == nil {
		return
	}
	c.profile.mu.Lock()
	defer c.profile.mu.Unlock()
	c.count(spent)
	c.path, c.beyond = c.path[:1], 0
}

// count gives the instructions since the last note to the function that has run.
func (c *Call) count(spent int64) {
	c.path[len(c.path)-1].own += spent - c.counted
	c.counted = spent
}
