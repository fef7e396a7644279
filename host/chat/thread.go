package chat

// ThreadKind says who keeps the messages of an agent thread.
type ThreadKind string

// The kinds of agent threads.
const (
	ThreadUndecided ThreadKind = "undecided" // before the first answer
	ThreadService   ThreadKind = "service"   // the model's service
	ThreadStore     ThreadKind = "store"     // a message store
)
