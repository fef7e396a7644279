package wasmmeter

import "errors"

// ErrInitialMemory is in the chain of the error for a module whose memory begins with
// more pages than the limit.
var ErrInitialMemory = errors.New("the initial memory is more than the limit")
