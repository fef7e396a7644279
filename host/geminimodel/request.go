package geminimodel

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// continued is modelhttp.Continued as a part.
const continued = `{"text":"` + modelhttp.Continued + `"}`

// side is where a content comes from. Results are the user's in the protocol, but
// a content of their own.
type side int

const (
	userSide side = iota
	modelSide
	resultSide
)

// opens are the beginnings of contents, never modified.
var opens = [...][]byte{
	userSide:   []byte(`{"role":"user","parts":[`),
	modelSide:  []byte(`{"role":"model","parts":[`),
	resultSide: []byte(`{"role":"user","parts":[`),
}

var (
	comma       = []byte(",")
	contentEnds = []byte("]}")
	bodyEnds    = []byte("]}")
)

// content is a run of consecutive messages of one side.
type content struct {
	side   side
	pieces [][]byte // the parts of each message, separated by commas
}

// write writes the request. Each message is written once in its life.
func (q *question) write() error {
	contents, err := q.contents()
	if err != nil {
		return err
	}
	if len(contents) == 0 {
		return q.model.server.NoContent()
	}
	_, parameters, err := q.req.Parameters.PromptCache() // the service caches by itself
	if err != nil {
		return err
	}
	head, err := modelhttp.AddHeadParameters(q.head(), "contents", parameters, reserved...)
	if err != nil {
		return err
	}
	body := modelhttp.Body{head}
	for i, c := range contents {
		if i > 0 {
			body = append(body, comma)
		}
		body = append(body, opens[c.side])
		for j, p := range c.pieces {
			if j > 0 {
				body = append(body, comma)
			}
			body = append(body, p)
		}
		body = append(body, contentEnds)
	}
	q.body = append(body, bodyEnds)
	return nil
}

// contents puts messages together as the protocol wants them.
func (q *question) contents() (list []content, err error) {
	for _, msg := range q.req.Messages {
		if msg.Role == chat.System {
			continue
		}
		parts, err := q.parts(msg)
		if err != nil {
			return nil, err
		}
		if len(parts) > 0 {
			list = addContent(list, sideOf(msg), parts)
		}
	}
	return list, nil
}

func sideOf(msg *chat.Message) side {
	switch msg.Role {
	case chat.Assistant:
		return modelSide
	case chat.ToolRole:
		return resultSide
	}
	return userSide
}

func addContent(list []content, from side, parts []byte) []content {
	if len(list) == 0 && from == modelSide {
		list = append(list, content{userSide, [][]byte{[]byte(continued)}})
	}
	if n := len(list); n > 0 && list[n-1].side == from {
		list[n-1].pieces = append(list[n-1].pieces, parts)
		return list
	}
	return append(list, content{from, [][]byte{parts}})
}

// parts returns the parts of a message. A result that does not name its tool has
// the name of the call, which stands in another message, so it is not kept.
func (q *question) parts(msg *chat.Message) ([]byte, error) {
	for _, r := range msg.ToolResults() {
		if r.Name == "" {
			return q.writeMessage(msg, q.form)
		}
	}
	return msg.Encoded(q.form, func(msg *chat.Message) ([]byte, error) { return q.writeMessage(msg, q.form) })
}

// toolOf returns the name of the tool that the call of an id is of.
func (q *question) toolOf(id string) string {
	for _, msg := range q.req.Messages {
		for _, c := range msg.ToolCalls() {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return ""
}

// reserved are the members that agents' model parameters may not set: those that
// the host writes, those that decide the form of the answer, and the limits that
// the host counts with.
var reserved = []string{"contents", "systemInstruction", "tools", "toolConfig", "generationConfig/maxOutputTokens", "generationConfig/candidateCount",
	"generationConfig/responseMimeType", "generationConfig/responseSchema", "generationConfig/responseJsonSchema"}

// head writes the request up to the first content.
func (q *question) head() []byte {
	b := []byte{'{'}
	if instruction := q.model.server.SystemText(q.req.Messages, q.inWords); instruction != "" {
		b = chat.AppendJSONString(append(b, `"systemInstruction":{"parts":[{"text":`...), instruction)
		b = append(b, "}]},"...)
	}
	b = appendTools(b, q.req)
	if config := q.config(); len(config) > 0 {
		b = append(append(append(b, `"generationConfig":{`...), config...), "},"...)
	}
	return append(b, `"contents":[`...)
}

// config writes the members of the generation's configuration.
func (q *question) config() []byte {
	var members [][]byte
	if t := q.req.Temperature; t != nil {
		members = append(members, strconv.AppendFloat([]byte(`"temperature":`), *t, 'g', -1, 64))
	}
	if n := q.req.MaxOutputTokens; n > 0 {
		members = append(members, strconv.AppendInt([]byte(`"maxOutputTokens":`), int64(n), 10))
	}
	if o := q.req.Output; o != nil && q.inWords == nil {
		members = append(members, append([]byte(`"responseMimeType":"application/json","responseJsonSchema":`), o.Schema...))
	}
	if thinking := q.model.opts.thinking(); len(thinking) > 0 {
		members = append(members, append(append([]byte(`"thinkingConfig":{`), thinking...), '}'))
	}
	return bytes.Join(members, comma)
}

// thinking writes the members of the configuration of thinking.
func (o *Options) thinking() []byte {
	var members [][]byte
	switch n := o.ThinkingTokens; {
	case o.Effort != "":
		members = append(members, chat.AppendJSONString([]byte(`"thinkingLevel":`), o.Effort))
	case n == DoNotThink:
		members = append(members, []byte(`"thinkingBudget":0`))
	case n != 0:
		members = append(members, strconv.AppendInt([]byte(`"thinkingBudget":`), int64(n), 10))
	}
	if o.Thoughts {
		members = append(members, []byte(`"includeThoughts":true`))
	}
	return bytes.Join(members, comma)
}

// provider is the name by which agents' provider tools are this service's.
const provider = "gemini"

// appendTools writes the tools that the model may call, with a comma behind
// them.
func appendTools(b []byte, req *llm.Request) []byte {
	var list [][]byte
	if len(req.Tools) > 0 {
		list = append(list, declarations(req.Tools))
	}
	for _, d := range req.ProviderToolsOf(provider) {
		list = append(list, d)
	}
	if len(list) == 0 {
		return b
	}
	b = append(append(append(b, `"tools":[`...), bytes.Join(list, comma)...), "],"...)
	if len(req.Tools) == 0 || req.ToolChoice == "" {
		return b
	}
	b = append(b, `"toolConfig":{"functionCallingConfig":{"mode":`...)
	switch c := req.ToolChoice; c {
	case llm.ToolChoiceAuto:
		b = append(b, `"AUTO"`...)
	case llm.ToolChoiceAny:
		b = append(b, `"ANY"`...)
	case llm.ToolChoiceNone:
		b = append(b, `"NONE"`...)
	default:
		b = append(chat.AppendJSONString(append(b, `"ANY","allowedFunctionNames":[`...), string(c)), ']')
	}
	return append(b, "}},"...)
}

// declarations writes the tools that the host runs. One without parameters has no
// schema: an object without members is none to the service.
func declarations(tools []llm.ToolSpec) []byte {
	b := []byte(`{"functionDeclarations":[`)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = chat.AppendJSONString(append(b, `{"name":`...), t.Name)
		if t.Description != "" {
			b = chat.AppendJSONString(append(b, `,"description":`...), t.Description)
		}
		if parameters := bytes.TrimSpace(t.Parameters); hasMembers(parameters) {
			b = append(append(b, `,"parametersJsonSchema":`...), parameters...)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// hasMembers reports whether a schema of an object says anything of its members.
func hasMembers(schema json.RawMessage) bool {
	var keywords map[string]json.RawMessage
	if len(schema) > 0 && json.Unmarshal(schema, &keywords) != nil {
		return true // the service names the parts that it refuses
	}
	for name, value := range keywords {
		switch {
		case name == "type" || name == "title" || name == "description" || name == "$schema":
		case name == "properties" && string(value) == "{}":
		case name == "required" && string(value) == "[]":
		case name == "additionalProperties" && string(value) == "false":
		default:
			return true
		}
	}
	return false
}
