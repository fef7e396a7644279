package stream

import (
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
)

// Brief returns the encoder of the unchanged events without their repeated
// members: the first event alone carries run, network and time, and others only
// where they differ from it. [ReadBrief] puts them back. A token of text is a
// frame of a third of the bytes.
func Brief() Encoder { return &brief{} }

type brief struct {
	begun        bool
	run, network string
}

func (b *brief) Encode(dst []Frame, ev host.Event) ([]Frame, error) {
	ev = ev.ForClient()
	if !b.begun || ev.Run != b.run || ev.Network != b.network {
		b.begun, b.run, b.network = true, ev.Run, ev.Network
		data, err := ev.AppendJSON(nil)
		if err != nil {
			return dst, unwritable(ev, err)
		}
		return append(dst, Frame{Data: data}), nil
	}
	data, err := json.Marshal(ev.Data)
	if err != nil {
		return dst, unwritable(ev, err)
	}
	line := strconv.AppendInt([]byte(`{"seq":`), ev.Seq, 10)
	line = chat.AppendJSONString(append(line, `,"type":`...), ev.Data.Type())
	if ev.Agent != "" {
		line = chat.AppendJSONString(append(line, `,"agent":`...), ev.Agent)
	}
	line = append(append(append(line, `,"data":`...), data...), '}')
	return append(dst, Frame{Data: line}), nil
}

func unwritable(ev host.Event, err error) error {
	return host.Errorf(host.Internal, "write event %d, %s: %w", ev.Seq, ev.Data.Type(), err)
}

// ReadBrief returns a function that reads the events of one stream that [Brief]
// has written, or [Own]. Events must come in order: a missing one is an error
// of code data_loss, so that no client continues from a state that is not the
// host's. It is not safe for concurrent use.
func ReadBrief() func(data json.RawMessage) (host.Event, error) {
	var first host.Event
	next := int64(-1)
	return func(data json.RawMessage) (host.Event, error) {
		var ev host.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return ev, err
		}
		if next >= 0 && ev.Seq != next {
			return ev, host.Errorf(host.DataLoss, "event %d comes where event %d should", ev.Seq, next).WithHint("load what the host has")
		}
		next = ev.Seq + 1
		if ev.Run != "" {
			first = ev
			return ev, nil
		}
		ev.Run, ev.Network, ev.Time = first.Run, first.Network, first.Time
		return ev, nil
	}
}
