package kv

// Notifier is implemented by a [Driver] that several processes use at once: it wakes a
// process after another one has written to a partition. A process that must not miss a
// write reads after each wake-up, and also now and then without one.
type Notifier interface {
	// Watch returns a channel that has a value after a commit to the partition, by this
	// or any other process, that begins after Watch has returned. Values come within the
	// driver's poll interval, and usually at once; several commits may be one value, and
	// a value may come without a commit. A driver that is closed, or whose store cannot
	// be reached, sends none. The channel holds one value and is never closed. stop ends
	// the watch, and may be called more than once.
	//
	// The error is [ErrInvalid] or a *[LimitError] if the partition is empty or too
	// long, and [ErrClosed] after Close.
	Watch(partition string) (changed <-chan struct{}, stop func(), err error)
}

// NotifierOf returns the [Notifier] of a driver, also of one below [Checked] and
// [Group]; nil if it has none, as a driver that one process alone uses.
func NotifierOf(d Driver) Notifier {
	switch outer := d.(type) {
	case *grouped:
		return NotifierOf(outer.Driver)
	case *checked, *checkedLocker:
		return NotifierOf(Unchecked(d))
	}
	n, _ := d.(Notifier)
	return n
}
