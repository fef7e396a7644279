// Package idgroup indexes the ids of one turn together. In go ids that ascend with time, those
// of messages which follow each other in a log and that of their run; out come the bytes of
// one entry, and the position of a message in it.
//
// It promises that an id takes 16 bytes, that an id of another form is recognized before it
// is put in, that a message which left the group keeps the places of the others, and that
// bytes from a store make no lookup fail otherwise than by not finding. It knows no keys, no
// records and no store.
package idgroup
