package pdk

// A Question is what [Generate] asks a model.
type Question struct {
	Instructions string
	Messages     []Message // without tool calls and results
	Model        string    // "" is the operator's choice, or the model of the agent at work
	MaxTokens    int       // of the answer; 0 is the host's
}

// Generated is what a model said.
type Generated struct {
	Message      Message
	InputTokens  int
	OutputTokens int
	FinishReason string
}

// Generate asks a model and waits for its answer. [ResourceExhausted] when the
// tenant's budget has no room for the question.
func Generate(q Question) (*Generated, error) {
	var w Writer
	w.BeginObject().key("messages").BeginArray()
	for i := range q.Messages {
		w.message(&q.Messages[i])
	}
	w.EndArray()
	w.member("instructions", q.Instructions)
	w.member("model", q.Model)
	if q.MaxTokens != 0 {
		w.key("max_tokens").Int(int64(q.MaxTokens))
	}
	response, err := HostCall("model.generate", borrowed(w.EndObject()))
	if err != nil {
		return nil, err
	}
	messages, err := ParseMessages("[" + response.Get("message") + "]")
	if err != nil || len(messages) != 1 {
		return nil, Errorf(Internal, "the host's answer is not a message")
	}
	out := &Generated{Message: messages[0]}
	input, _ := response.Get("usage").Get("input_tokens").Int()
	output, _ := response.Get("usage").Get("output_tokens").Int()
	out.InputTokens, out.OutputTokens = int(input), int(output)
	out.FinishReason, _ = response.Get("finish_reason").Str()
	return out, nil
}

// SendOptions are the optional parts of [Send].
type SendOptions struct {
	IdempotencyKey string // a second job of the same key is [AlreadyExists]
	DelayMS        int64
}

// Send leaves work for after the turn: the plugin's tool of that name is called
// with the payload as arguments once the turn is stored, and again if it fails.
func Send(tool string, payload Raw, opts SendOptions) (id string, err error) {
	var w Writer
	w.BeginObject().key("handler").Str(tool).key("payload").Raw(payload)
	w.member("idempotency_key", opts.IdempotencyKey)
	if opts.DelayMS != 0 {
		w.key("delay_ms").Int(opts.DelayMS)
	}
	response, err := HostCall("queue.send", borrowed(w.EndObject()))
	if err != nil {
		return "", err
	}
	id, _ = response.Get("id").Str()
	return id, nil
}
