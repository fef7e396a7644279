package chat

import "github.com/google/uuid"

// NewID returns a fresh UUIDv7: unique, and sorting by the time it was made.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// RandomID returns a fresh UUIDv4, of which no bit can be guessed from the time: for an
// id that entitles its holder.
func RandomID() string { return uuid.NewString() }
