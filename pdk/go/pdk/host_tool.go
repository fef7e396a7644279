package pdk

// A ToolRequest is a call of another tool, by the name under which the agent has it.
type ToolRequest struct {
	Name      string
	Arguments Raw // empty: none
}

// A ToolAnswer is the answer to a [ToolRequest].
type ToolAnswer struct {
	Content Raw  // of a failed call: a sentence, as a model reads it
	Failed  bool // the tool failed, a person denied the call, or the tool does not exist
	Code    Code // of a failed call
	Media   Raw  // parts of type media; empty if there are none
}

// Err returns the error of a failed call, with the sentence as its message; nil for a result.
func (a *ToolAnswer) Err() error {
	if !a.Failed {
		return nil
	}
	sentence, ok := a.Content.Str()
	if !ok {
		sentence = string(a.Content)
	}
	return &Error{Code: a.Code, Message: sentence}
}

// CallTools calls other tools of the agent at work, in a tool, and returns their answers in
// the order of the calls. They run at the same time. It needs the permission Tools.
//
// If one of them asks a person, CallTools does not return: the host ends the call and makes
// it again, from its beginning, when there is an answer. What had completed is answered
// then and does not happen again, by its position among all calls that the tool makes. A
// tool must therefore make the same calls again: they may depend on its arguments and on
// earlier answers alone.
//
// The error says that none was called: [PermissionDenied] for a tool that is not granted,
// [FailedPrecondition] outside a run and for a tool that this call is made by,
// [ResourceExhausted] beyond the limits of the run, and [Unimplemented] in a host that lacks
// the operation.
func CallTools(calls ...ToolRequest) ([]ToolAnswer, error) {
	var w Writer
	w.BeginObject().key("calls").BeginArray()
	for _, c := range calls {
		w.BeginObject().key("name").Str(c.Name)
		w.rawMember("arguments", c.Arguments)
		w.EndObject()
	}
	response, err := HostCall("tool.call", borrowed(w.EndArray().EndObject()))
	if err != nil {
		return nil, err
	}
	answers := make([]ToolAnswer, 0, len(calls))
	for result := range response.Get("results").Elements() {
		kind, _ := result.Get("kind").Str()
		code, _ := result.Get("code").Str()
		if kind != "result" && code == "" {
			code = string(Internal) // of a kind that this kit does not know
		}
		answers = append(answers, ToolAnswer{Content: result.Get("content"), Failed: kind != "result", Code: Code(code), Media: result.Get("media")})
	}
	if len(answers) != len(calls) {
		return nil, Errorf(Internal, "the host answers %d calls of tools with %d results", len(calls), len(answers))
	}
	return answers, nil
}

// CallTool calls one tool as [CallTools] does, and returns the content of its result. The error
// is also that of a call that failed.
func CallTool(name string, arguments Raw) (Raw, error) {
	answers, err := CallTools(ToolRequest{Name: name, Arguments: arguments})
	if err != nil {
		return "", err
	}
	return answers[0].Content, answers[0].Err()
}
