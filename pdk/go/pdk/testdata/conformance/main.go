// Command conformance is the guest of the Go kit that pdk/conformance feeds: each part answers
// with the members of its request that the contract names, written again as the kit has read
// them.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

const anyArguments = `{"type":"object"}`

func init() {
	pdk.Describe(pdk.Manifest{Name: "conformance", Version: "1.0.0"})
	pdk.Tool("vector", "Answers with its call.", anyArguments, func(c *pdk.Call) error {
		c.Return(call(c))
		return nil
	})
	pdk.Tool("integer", "Answers with its argument.", anyArguments, func(c *pdk.Call) error {
		n := c.Int("argument")
		c.JSON().BeginObject().Key("argument").Int(int64(n)).EndObject()
		return nil
	})
	pdk.Tool("host", "Asks the host for things.", anyArguments, askHost)
	pdk.Tool("bytes", "Passes bytes to the host and gets them.", anyArguments, passBytes)
	pdk.Tool("carry", "Writes an artifact and reads it.", anyArguments, carry)
	pdk.Tool("log", "Writes to the log.", anyArguments, func(*pdk.Call) error {
		pdk.Log(pdk.LevelWarn, "late", "order", 1042, "who", "Ann", "note", `say "hi"`, "empty", "", "eq", "a=b", "path", `a\b`, "paid", true, "days", 2.5)
		return nil
	})
	pdk.Tool("answer", "Answers with its arguments, as a result.", anyArguments, answer)
	pdk.Tool("fail", "Fails with its arguments.", anyArguments, func(c *pdk.Call) error {
		return &pdk.Error{Code: pdk.Code(c.String("code")), Message: c.String("message"), Hint: c.String("hint"), Retryable: c.Bool("retryable")}
	})
	pdk.Processor("vector", func(p *pdk.Process) error {
		o := process(p)
		o.messages("messages", p.Messages())
		if p.Own() > 0 {
			o.int("own_from", len(p.Messages())-p.Own())
		}
		p.Report(o.value())
		return nil
	})
	pdk.OutlineProcessor("outline", func(p *pdk.Process) error {
		o := process(p)
		o.raw("outline", outline(p.Outline()))
		p.Report(o.value())
		return nil
	})
	pdk.Processor("again", func(p *pdk.Process) error {
		for i, m := range p.Messages() {
			p.Replace(i, m)
		}
		return nil
	})
	pdk.Router("vector", func(r *pdk.Route) error {
		r.Reason(string(route(r)))
		return nil
	})
	pdk.Provider("vector", func(p *pdk.Provide) error {
		o := newObject()
		o.raw("config", p.Config)
		o.raw("scope", scope(&p.Scope))
		o.messages("messages", p.Messages)
		p.Instruct(string(o.value()))
		return nil
	})
	pdk.Observer("vector", func(o *pdk.Observe) error {
		if o.Err != nil {
			pdk.Log(pdk.LevelInfo, o.Err.Message)
		}
		return nil
	})
}

func main() {}

// object writes a JSON object whose members without a value are left out.
type object struct{ w pdk.Writer }

func newObject() *object {
	o := &object{}
	o.w.BeginObject()
	return o
}

func (o *object) text(name, text string) {
	if text != "" {
		o.w.Key(name).Str(text)
	}
}

func (o *object) int(name string, n int) { o.w.Key(name).Int(int64(n)) }

func (o *object) raw(name string, value pdk.Raw) {
	if value != "" {
		o.w.Key(name).Raw(value)
	}
}

func (o *object) ints(name string, list []int) {
	o.w.Key(name).BeginArray()
	for _, n := range list {
		o.w.Int(int64(n))
	}
	o.w.EndArray()
}

func (o *object) messages(name string, list []pdk.Message) {
	o.w.Key(name).BeginArray()
	for i := range list {
		o.w.Raw(list[i].Raw())
	}
	o.w.EndArray()
}

func (o *object) value() pdk.Raw { return o.w.EndObject().Value() }

func scope(s *pdk.Scope) pdk.Raw {
	o := newObject()
	o.text("tenant", s.Tenant)
	o.text("thread", s.Thread)
	o.text("run", s.Run)
	o.text("network", s.Network)
	o.text("agent", s.Agent)
	return o.value()
}

func call(c *pdk.Call) pdk.Raw {
	o := newObject()
	o.text("tool", c.Tool)
	o.raw("arguments", c.Arguments)
	o.text("call_id", c.ID)
	o.text("idempotency_key", c.IdempotencyKey)
	if c.Attempt > 0 {
		o.int("attempt", c.Attempt)
	}
	o.text("provider", c.Provider)
	o.raw("scope", scope(&c.Scope))
	o.raw("state", c.State)
	if c.StateRevision > 0 {
		o.int("state_revision", int(c.StateRevision))
	}
	o.raw("config", c.Config)
	if c.Resumed != nil {
		o.w.Key("resumed").BeginArray()
		for _, a := range c.Resumed {
			o.w.BeginObject().Key("interrupt_id").Str(a.InterruptID).Key("answer").Raw(a.Answer).EndObject()
		}
		o.w.EndArray()
	}
	return o.value()
}

// callTools calls other tools, and returns what came of them.
func callTools() (pdk.Raw, error) {
	const seven, eight = pdk.Raw(`{"order":7}`), pdk.Raw(`{"order":8}`)
	answers, err := pdk.CallTools(pdk.ToolRequest{Name: "look", Arguments: seven}, pdk.ToolRequest{Name: "pay", Arguments: seven}, pdk.ToolRequest{Name: "wait", Arguments: seven})
	if err != nil {
		return "", err
	}
	one, err := pdk.CallTool("look", eight)
	if err != nil {
		return "", err
	}
	closed, _ := answers[1].Err().(*pdk.Error)
	var media pdk.Raw
	for part := range answers[0].Media.Elements() {
		media = part.Get("media_type")
	}
	_, pay := pdk.CallTool("pay", eight)
	_, drop := pdk.CallTool("drop", eight)
	var w pdk.Writer
	w.BeginObject().Key("found").Raw(answers[0].Content).Key("media").Raw(media).Key("one").Raw(one)
	w.Key("failed").BeginArray().Str(string(closed.Code)).Str(closed.Message).Str(string(pdk.CodeOf(answers[2].Err()))).EndArray()
	w.Key("denied").BeginArray().Bool(pdk.CodeOf(pay) == pdk.PermissionDenied).Bool(pdk.CodeOf(drop) == pdk.PermissionDenied).EndArray()
	return w.EndObject().Value(), nil
}

func askHost(c *pdk.Call) error {
	_, absent := pdk.KVGet("k")
	if _, err := pdk.KVPut("k", []byte("a\x00é"), pdk.KVPutOptions{}); err != nil {
		return err
	}
	item, err := pdk.KVGet("k")
	if err != nil {
		return err
	}
	n, _, err := pdk.State("/n")
	if err != nil {
		return err
	}
	response, err := pdk.Fetch(pdk.HTTPRequest{Method: "POST", URL: "https://example.com/x", Body: []byte(`{"a":1}`),
		Headers: []pdk.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}}})
	if err != nil {
		return err
	}
	ok, _ := pdk.Raw(response.Body).Get("ok").Bool()
	var left pdk.Raw
	for range 2 {
		if left, err = pdk.Step("s", pdk.StepOptions{}, func() (pdk.Raw, error) { return `{"x":1.0}`, nil }); err != nil {
			return err
		}
	}
	if err := pdk.Emit("progress", `{"message":"half"}`); err != nil {
		return err
	}
	if _, err := pdk.Send("later", `{"a":[1]}`, pdk.SendOptions{}); err != nil {
		return err
	}
	others, err := callTools()
	if err != nil {
		return err
	}
	_, err = pdk.HostCall("artifact.read", `{"name":"plan"}`)
	if c.Bool("fails") {
		return err
	}
	c.JSON().BeginObject().Key("absent").Bool(pdk.CodeOf(absent) == pdk.NotFound).Key("text").Str(string(item.Value)).Key("n").Raw(n).
		Key("status").Int(int64(response.Status)).Key("ok").Bool(ok).Key("step").Raw(left).Key("tools").Raw(others).Key("code").Str(string(pdk.CodeOf(err))).EndObject()
	return nil
}

func passBytes(c *pdk.Call) error {
	if _, err := pdk.KVPutBytes("k", []byte("a\x00é"), pdk.KVPutOptions{If: true}); err != nil {
		return err
	}
	item, err := pdk.KVGetBytes("k")
	if err != nil {
		return err
	}
	digest, err := pdk.WriteArtifactBytes("plan", "application/x-plan", []byte("\x00\x01\x02"))
	if err != nil {
		return err
	}
	plan, mediaType, err := pdk.ReadArtifactBytes("plan")
	if err != nil {
		return err
	}
	response, err := pdk.FetchBytes(pdk.HTTPRequest{Method: "POST", URL: "https://example.com/x", Body: []byte(`{"a":1}`),
		Headers: []pdk.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}}})
	if err != nil {
		return err
	}
	_, err = pdk.KVGetBytes("none")
	if c.Bool("fails") {
		return err
	}
	c.JSON().BeginObject().Key("text").Str(string(item.Value)).Key("revision").Int(item.Revision).Key("digest").Str(digest).
		Key("plan").Str(string(plan)).Key("type").Str(mediaType).Key("status").Int(int64(response.Status)).
		Key("body").Str(string(response.Body)).Key("code").Str(string(pdk.CodeOf(err))).EndObject()
	return nil
}

func carry(c *pdk.Call) error {
	write, read := pdk.WriteArtifact, pdk.ReadArtifact
	if c.Bool("bytes") {
		write, read = pdk.WriteArtifactBytes, pdk.ReadArtifactBytes
	}
	data := make([]byte, c.Int("size"))
	for i := range data {
		data[i] = byte(i)
	}
	if _, err := write("load", "", data); err != nil {
		return err
	}
	file, _, err := read("load")
	if err != nil {
		return err
	}
	right := 0
	for i := range file {
		if file[i] == byte(i) {
			right++
		}
	}
	c.JSON().BeginObject().Key("right").Int(int64(right)).Key("size").Int(int64(len(file))).EndObject()
	return nil
}

func answer(c *pdk.Call) error {
	if asked := c.Arg("interrupt"); asked != "" {
		reason, _ := asked.Get("reason").Str()
		c.Interrupt(reason, asked.Get("data"))
		return nil
	}
	c.Return(c.Arg("content"))
	for op := range c.Arg("state").Elements() {
		kind, _ := op.Get("op").Str()
		path, _ := op.Get("path").Str()
		from, _ := op.Get("from").Str()
		c.Patch(pdk.PatchOp{Op: kind, Path: path, From: from, Value: op.Get("value")})
	}
	if list := c.Arg("media"); list != "" {
		messages, err := pdk.ParseMessages(`[{"role":"tool","parts":` + list + `}]`)
		if err != nil {
			return err
		}
		for _, part := range messages[0].Parts {
			c.Media(part)
		}
	}
	for a := range c.Arg("artifacts").Elements() {
		name, _ := a.Get("name").Str()
		messages, err := pdk.ParseMessages(`[{"role":"tool","parts":` + a.Get("parts") + `}]`)
		if err != nil {
			return err
		}
		c.Artifact(name, a.Get("metadata"), messages[0].Parts...)
	}
	for agent := range c.Arg("schedule").Elements() {
		name, _ := agent.Str()
		c.Schedule(name)
	}
	return nil
}

func process(p *pdk.Process) *object {
	o := newObject()
	o.text("processor", p.Name)
	o.raw("config", p.Config)
	o.raw("scope", scope(&p.Scope))
	o.w.Key("model").Str(p.Model)
	return o
}

func outline(l *pdk.Outline) pdk.Raw {
	o := newObject()
	o.int("count", l.Len())
	o.w.Key("roles").Str(l.Roles)
	o.ints("bytes", l.Bytes)
	o.ints("chars", l.Chars)
	if l.Tokens != nil {
		o.ints("tokens", l.Tokens)
	}
	o.text("encoding", l.Encoding)
	o.ints("parts", l.Parts)
	if l.Keep != nil {
		o.ints("keep", l.Keep)
	}
	if l.Own > 0 {
		o.int("own_from", l.Len()-l.Own)
	}
	o.w.Key("tools").BeginArray()
	for _, row := range l.Tools {
		kind := "call"
		if row.Result {
			kind = "result"
		}
		o.w.BeginArray().Int(int64(row.Message)).Int(int64(row.Part)).Str(kind).Str(row.ID).Str(row.Name).EndArray()
	}
	o.w.EndArray()
	return o.value()
}

func route(r *pdk.Route) pdk.Raw {
	o := newObject()
	o.raw("config", r.Config)
	o.raw("scope", scope(&r.Scope))
	if r.Input != nil {
		o.raw("input", r.Input.Raw())
	}
	o.int("call_count", r.CallCount)
	o.w.Key("stack").BeginArray()
	for _, name := range r.Stack {
		o.w.Str(name)
	}
	o.w.EndArray().Key("agents").BeginArray()
	for _, a := range r.Agents {
		o.w.BeginObject().Key("name").Str(a.Name).Key("description").Str(a.Description).EndObject()
	}
	o.w.EndArray()
	o.raw("state", r.State)
	if l := r.Last; l != nil {
		in := newObject()
		in.text("agent", l.Agent)
		in.messages("messages", l.Messages)
		results := pdk.NewMessage(pdk.RoleTool, l.ToolResults...)
		in.raw("tool_results", results.Raw().Get("parts"))
		in.text("finish_reason", l.FinishReason)
		o.raw("last", in.value())
	}
	if l := r.Outline(); l != nil {
		o.raw("outline", outline(l))
	}
	return o.value()
}
