package pdk

// Roles of messages, as letters of an outline's Roles column.
const (
	RoleLetterSystem    = 's'
	RoleLetterUser      = 'u'
	RoleLetterAssistant = 'a'
	RoleLetterTool      = 't'
)

// An Outline is a conversation without its content: one entry a message in
// every column, in the order of the conversation. It makes a processor's cost
// independent of how much text the conversation holds.
//
// All of it is valid until the handler returns.
type Outline struct {
	// Roles has one letter a message: s system, u user, a assistant, t tool.
	Roles string

	// Bytes and Chars are the size of each message's counted text in UTF-8 bytes
	// and in UTF-16 units. Counted are text parts, the JSON of tool calls, the
	// content of tool results and the value of data parts.
	Bytes []int
	Chars []int

	// Tokens is the exact number of tokens of each message's counted text. It is
	// nil when the processor did not ask for tokens, or when the host has no
	// exact tables for the encoding that was asked for.
	Tokens []int

	// Encoding names the encoding that Tokens was counted with, empty without
	// Tokens.
	Encoding string

	// Parts is how many parts each message has.
	Parts []int

	// Keep lists the messages that may be edited but not dropped: this turn's
	// input, if the conversation has it.
	Keep []int

	// Own is how many messages, the last ones, are from the rounds that the agent
	// about to be asked has made since it was picked: its own calls, and their
	// results. It is 0 for none, and where the host does not say.
	Own int

	// Tools lists every tool call and tool result, ordered by message, then part.
	Tools []OutlineTool
}

// Len returns the number of messages.
func (o *Outline) Len() int { return len(o.Roles) }

// An OutlineTool says where a tool call or a tool result stands.
type OutlineTool struct {
	Message int    // index of the message
	Part    int    // index of the part in its message
	Result  bool   // a tool result; otherwise a tool call
	ID      string // the call's id, the same on a call and its result
	Name    string // the tool's name
}
