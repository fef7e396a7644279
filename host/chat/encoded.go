package chat

// encoded is the encoding of a message for one protocol. The others are behind it.
type encoded struct {
	form  any
	bytes []byte
	next  *encoded
}

// maxEncodings bounds the forms of one message that are kept.
const maxEncodings = 4

// Encoded returns write's encoding of m, and keeps it with the message: a model is
// sent every message of a conversation again at every turn, and the writing of it
// is most of what asking a model costs. form says what the result depends on
// besides the message; it must be comparable and of a type of the caller's own. The
// bytes belong to the message and must not be changed. An error is returned and not
// kept. Safe for concurrent use, as messages are: once encoded, a message must not
// change.
func (m *Message) Encoded(form any, write func(*Message) ([]byte, error)) ([]byte, error) {
	first := m.encoded.Load()
	n := 0
	for e := first; e != nil; e = e.next {
		if e.form == form {
			return e.bytes, nil
		}
		n++
	}
	b, err := write(m)
	if err != nil {
		return nil, err
	}
	e := &encoded{form, b, first}
	if n >= maxEncodings {
		e.next = nil
	}
	m.encoded.CompareAndSwap(first, e) // the loser of a race writes it again next time
	return b, nil
}
