package host

import "github.com/agenthost/agenthost/host/chat"

// The messages of a conversation are those of the package chat. The names that
// programs with agents use are names of this package too.

// Message is one entry of a conversation: see [chat.Message].
type Message = chat.Message

// Role is the kind of speaker of a message: see [chat.Role].
type Role = chat.Role

// The roles.
const (
	System    = chat.System
	User      = chat.User
	Assistant = chat.Assistant
	ToolRole  = chat.ToolRole
)

// Part is a piece of a message: a pointer to one of the types below. See [chat.Part].
type Part = chat.Part

// The parts of messages.
type (
	// Text is text in a message.
	Text = chat.Text
	// Reasoning is a model's reasoning before its answer.
	Reasoning = chat.Reasoning
	// ToolCall is a model's wish to have a tool run.
	ToolCall = chat.ToolCall
	// ToolResult answers the call with the same ID.
	ToolResult = chat.ToolResult
	// Media is an image, a sound or a file, by URL or as bytes.
	Media = chat.Media
	// Data is any JSON value.
	Data = chat.Data
)

// Artifact is a product of a run: see [chat.Artifact].
type Artifact = chat.Artifact

// TokenCounter counts tokens, for limits, processors and reports: see
// [chat.TokenCounter].
type TokenCounter = chat.TokenCounter

// NewMessage returns a message with a fresh id and the current time.
func NewMessage(role Role, parts ...Part) *Message { return chat.NewMessage(role, parts...) }

// UserText returns a user's message with one text part.
func UserText(text string) *Message { return chat.UserText(text) }

// AssistantText returns an assistant's message with one text part.
func AssistantText(text string) *Message { return chat.AssistantText(text) }

// NewID returns a fresh UUIDv7: unique, and sorting by the time it was made.
func NewID() string { return chat.NewID() }
