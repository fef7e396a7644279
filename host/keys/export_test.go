package keys

// Parses reports whether a text has the form of a credential.
func Parses(text string) bool {
	_, ok := parse(text)
	return ok
}

// Rewritten returns a parsed credential written again; of a key alone.
func Rewritten(text string) string {
	c, ok := parse(text)
	if !ok || c.kind == pageToken {
		return text
	}
	return keyText(c.kind, c.id, c.secret)
}

// Partition is that of the records.
const Partition = partition

// WriteUses writes the last uses that wait.
func (s *Store) WriteUses() { s.writeUses() }
