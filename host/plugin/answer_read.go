package plugin

import (
	"context"
	"encoding/json"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin/internal/abi"
	"github.com/agenthost/agenthost/host/plugin/internal/callmeter"
	"github.com/agenthost/agenthost/host/plugin/internal/strictjson"
)

// answerReader turns an export's output into the result for the plugin's caller. Its
// context ends with the call; callmeter.Yield(ctx) lets others run between two pieces.
type answerReader func(ctx context.Context, output []byte) error

// The prices of reading an answer, in instructions. Reading is a part of the call:
// its budget pays before the first byte is looked at, and its deadline ends it.
const (
	// answerBytePrice is for each byte: it is validated, and skipped or copied.
	answerBytePrice = 4
	// answerSignPrice is for each sign that stands between values.
	answerSignPrice = 32
)

func answerPrice(output []byte, signs int) int64 {
	return int64(len(output))*answerBytePrice + int64(signs)*answerSignPrice
}

// The bounds of an answer's parts beside the limit OutputBytes. One that has more is
// an error of code internal, as any other answer that breaks the ABI.
const (
	// maxAnswerMessages bounds the messages that a processor or provider returns.
	maxAnswerMessages = 100_000
	// maxAnswerEdits bounds the edits that a processor returns: it may drop each of
	// maxAnswerMessages, and put another before it.
	maxAnswerEdits = 200_000
	// maxDecodedSigns bounds the commas, colons and brackets of JSON that becomes Go values
	// one by one (messages, edits, artifacts). Each value takes its reader some 100
	// bytes of memory, however few it has in the answer.
	maxDecodedSigns = 1 << 20
	// maxAnswerTools bounds the tools that a provider names: as many as a manifest
	// has, and as many of the host's.
	maxAnswerTools = 2 * abi.MaxParts
)

// readAnswer has the caller's reader read the output, or reads the error that it is.
// No guest code runs any more; the call still holds its quantum, and yields as an
// operation does.
func (inst *instance) readAnswer(r *callRequest, output []byte, guestErr bool) error {
	if err := inst.meter.ChargeReturned(answerPrice(output, signs(output))); err != nil {
		return err
	}
	if !inst.meter.YieldAfter(0) {
		return inst.meter.LateError()
	}
	o, cancel := inst.meter.BeginOperation()
	defer cancel()
	var err error
	if guestErr {
		r.failed = guestError(inst.plugin.id, inst.meter.Export(), output)
	} else {
		err = r.read(o, output)
	}
	if late := o.End(); late != nil {
		return late
	}
	return err
}

// atMost fails if an answer lists more than max items.
func (a answers) atMost(e export, what string, n, max int) error {
	if n <= max {
		return nil
	}
	return host.Errorf(host.Internal, "plugin %q: the output of %s has %d %s, more than %d", a.plugin, e, n, what, max).
		WithHint("the plugin is broken; see pdk/ABI.md")
}

// decodable fails if a field of an answer has too many values to decode.
func (a answers) decodable(e export, what string, raw []byte) error {
	return a.atMost(e, "commas, colons and brackets in its "+what, signs(raw), maxDecodedSigns)
}

// countItems returns how many items an array of valid JSON has; 0 for any other value.
func countItems(raw []byte) (n int) {
	if len(raw) > 0 && raw[0] == '[' {
		_ = strictjson.EachItem(raw, func([]byte) error { n++; return nil })
	}
	return n
}

// pieceBytes is how much of a long list of messages or edits is read at once. A
// piece takes some milliseconds.
const pieceBytes = 128 << 10

// inPieces reads the array that an answer has under a name, if it has at most max
// items. It reads arrays of whole items, of some pieceBytes, and lets others run in
// between.
func (a answers) inPieces(ctx context.Context, e export, what string, raw json.RawMessage, max int, read func(piece []byte) error) error {
	if err := a.decodable(e, what, raw); err != nil {
		return err
	}
	if err := a.atMost(e, what, countItems(raw), max); err != nil {
		return err
	}
	if len(raw) <= pieceBytes || raw[0] != '[' {
		return read(raw)
	}
	piece := append(make([]byte, 0, pieceBytes), '[')
	flush := func() error {
		piece[len(piece)-1] = ']' // in the place of the last comma
		err := read(piece)
		if piece = append(piece[:0], '['); err == nil {
			err = callmeter.Yield(ctx)
		}
		return err
	}
	err := strictjson.EachItem(raw, func(item []byte) error {
		if len(piece) > 1 && len(piece)+len(item) >= pieceBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		piece = append(append(piece, item...), ',')
		return nil
	})
	if err == nil && len(piece) > 1 {
		err = flush()
	}
	return err
}
