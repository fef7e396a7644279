package runevent

import (
	"encoding/json"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/llm"
)

// UnknownEvent is an event of a type that this version does not know, or that is
// another package's. JSON is its data verbatim.
type UnknownEvent struct {
	Name string
	JSON json.RawMessage
}

// Type returns the type in the event's JSON.
func (e *UnknownEvent) Type() string { return e.Name }

// MarshalJSON writes the data verbatim.
func (e *UnknownEvent) MarshalJSON() ([]byte, error) { return jsondoc.AppendRaw(nil, e.JSON), nil }

// UnmarshalJSON reads the output of MarshalJSON. A type that this version does not
// know becomes an [*UnknownEvent]. Code invalid_argument for anything else.
func (e *Event) UnmarshalJSON(b []byte) error {
	var in struct {
		Seq     int64           `json:"seq"`
		Time    time.Time       `json:"time"`
		Type    string          `json:"type"`
		Run     string          `json:"run"`
		Network string          `json:"network"`
		Agent   string          `json:"agent"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return fault.Errorf(fault.InvalidArgument, "read event: %w", err)
	}
	if in.Type == "" || len(in.Data) == 0 {
		return fault.Errorf(fault.InvalidArgument, "read event: it has no type or no data")
	}
	data, err := decodeData(in.Type, in.Data)
	if err != nil {
		return fault.Errorf(fault.InvalidArgument, "read event %d, %.60q: %w", in.Seq, in.Type, err)
	}
	*e = Event{Seq: in.Seq, Time: in.Time, Run: in.Run, Network: in.Network, Agent: in.Agent, Data: data}
	return nil
}

func decodeData(name string, raw json.RawMessage) (Data, error) {
	make, ok := eventTypes[name]
	if !ok {
		return &UnknownEvent{Name: name, JSON: raw}, nil
	}
	data := make()
	return data, json.Unmarshal(raw, data)
}

// eventTypes is the one table from names of types to the values that they are read
// into.
var eventTypes = map[string]func() Data{
	(*TextDelta)(nil).Type():         func() Data { return new(TextDelta) },
	(*ReasoningDelta)(nil).Type():    func() Data { return new(ReasoningDelta) },
	(*llm.ToolCallDelta)(nil).Type(): func() Data { return new(llm.ToolCallDelta) },
	(*StatePatched)(nil).Type():      func() Data { return new(StatePatched) },
	(*MessageDone)(nil).Type():       func() Data { return new(MessageDone) },
	(*RunStarted)(nil).Type():        func() Data { return new(RunStarted) },
	(*RouteChosen)(nil).Type():       func() Data { return new(RouteChosen) },
	(*AgentStarted)(nil).Type():      func() Data { return new(AgentStarted) },
	(*ProcessorRan)(nil).Type():      func() Data { return new(ProcessorRan) },
	(*ProviderRan)(nil).Type():       func() Data { return new(ProviderRan) },
	(*ModelCalled)(nil).Type():       func() Data { return new(ModelCalled) },
	(*ModelThrottled)(nil).Type():    func() Data { return new(ModelThrottled) },
	(*ThreadDecided)(nil).Type():     func() Data { return new(ThreadDecided) },
	(*ModelRetried)(nil).Type():      func() Data { return new(ModelRetried) },
	(*ModelFellBack)(nil).Type():     func() Data { return new(ModelFellBack) },
	(*ToolStarted)(nil).Type():       func() Data { return new(ToolStarted) },
	(*ToolProgress)(nil).Type():      func() Data { return new(ToolProgress) },
	(*ToolRetried)(nil).Type():       func() Data { return new(ToolRetried) },
	(*ToolFinished)(nil).Type():      func() Data { return new(ToolFinished) },
	(*ArtifactMade)(nil).Type():      func() Data { return new(ArtifactMade) },
	(*Interrupted)(nil).Type():       func() Data { return new(Interrupted) },
	(*AgentFinished)(nil).Type():     func() Data { return new(AgentFinished) },
	(*RunFinished)(nil).Type():       func() Data { return new(RunFinished) },
}
