package pdk

// An EditKind says what an [Edit] does.
type EditKind uint8

// The kinds of edit.
const (
	EditDrop     EditKind = iota // drop the messages [At, To)
	EditDropPart                 // drop part Part of message At
	EditInsert                   // insert Message before message At
	EditReplace                  // replace message At by Message
)

// String returns the field name that the edit has in the contract.
func (k EditKind) String() string {
	switch k {
	case EditDrop:
		return "drop"
	case EditDropPart:
		return "drop_part"
	case EditInsert:
		return "insert"
	case EditReplace:
		return "replace"
	}
	return "unknown"
}

// An Edit is one change to a conversation. All indices are those of the
// conversation as the processor received it, whatever other edits there are.
type Edit struct {
	Kind    EditKind
	At      int      // index of the message; first index of a drop
	To      int      // for EditDrop: the index after the last one dropped
	Part    int      // for EditDropPart: index of the part
	Message *Message // for EditInsert and EditReplace
}

// Edits collects a processor's changes of a conversation. The zero value is
// empty and changes nothing.
//
// The host applies all edits against the original indices: inserts come before
// the message at their index, in the order they were made, and an insert at the
// number of messages appends. A message may be dropped or replaced once, not
// both, and parts of it may be dropped only if it is neither. A message that
// loses its last part goes. An edit that breaks a rule or points outside the
// conversation makes the host refuse the whole list.
type Edits struct {
	list     []Edit
	messages []Message // what the list's messages point to, reused by Reset
	report   Raw
}

// Drop removes the messages with indices from <= i < to. A drop that continues
// the one before it extends it, so dropping message by message costs nothing. An
// empty range is no edit.
func (e *Edits) Drop(from, to int) {
	if from == to {
		return
	}
	if n := len(e.list); n > 0 {
		if last := &e.list[n-1]; last.Kind == EditDrop && last.To == from && from < to {
			last.To = to
			return
		}
	}
	e.list = append(e.list, Edit{Kind: EditDrop, At: from, To: to})
}

// DropPart removes one part of a message.
func (e *Edits) DropPart(message, part int) {
	e.list = append(e.list, Edit{Kind: EditDropPart, At: message, Part: part})
}

// Insert puts m before the message at index at; the number of messages appends.
// The host fills an ID and a CreatedAt that m leaves empty.
func (e *Edits) Insert(at int, m Message) {
	e.list = append(e.list, Edit{Kind: EditInsert, At: at, Message: e.hold(&m)})
}

// Replace puts m in the place of the message at index at.
func (e *Edits) Replace(at int, m Message) {
	e.list = append(e.list, Edit{Kind: EditReplace, At: at, Message: e.hold(&m)})
}

// hold copies m to a place that edits may point to. When the store grows, earlier
// edits still point to its old memory, which is never written again.
func (e *Edits) hold(m *Message) *Message {
	e.messages = append(e.messages, *m)
	return &e.messages[len(e.messages)-1]
}

// Report sets what the run shows about this processor: any JSON value.
func (e *Edits) Report(value Raw) { e.report = value }

// List returns the edits in the order they were made. The slice is the builder's
// own.
func (e *Edits) List() []Edit { return e.list }

// ReportValue returns what Report has set, or "".
func (e *Edits) ReportValue() Raw { return e.report }

// Reset empties e and keeps its memory.
func (e *Edits) Reset() {
	clear(e.list)
	clear(e.messages)
	e.list, e.messages = e.list[:0], e.messages[:0]
	e.report = ""
}
