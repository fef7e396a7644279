package ui

import "github.com/agenthost/agenthost/internal/termtext"

// MaxCompletions bounds the ids that a shell offers.
const MaxCompletions = 50

// Completion returns an id, and a few words about it, as a shell offers them.
func Completion(id, about string) string { return termtext.Printable(id) + "\t" + OneLine(about) }
