package geminimodel

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/modelhttp"
)

// signing is how the calls of a request are signed.
type signing int

const (
	signOwn  signing = iota // unchanged
	signAll                 // unchanged, with a mark on calls that came without
	signNone                // with marks only: the service does not take the signatures
)

// foreignSignature is the mark that Google documents for calls that a model of its
// did not make: the service does not look for their signature.
const foreignSignature = "skip_thought_signature_validator"

// wireForm is the key of the encodings that messages cache. An encoding must
// depend only on the message and its wireForm.
type wireForm struct {
	signing signing
	host    string // of the server, whose own files are not shown
	noMedia bool   // sentences in the place of tools' media
}

// partWriter writes the parts of one message, separated by commas.
type partWriter struct {
	b     []byte
	model *Model
	form  wireForm
	calls int
}

// writeMessage writes the parts of a message; nothing for a message without
// content that can be sent.
func (q *question) writeMessage(msg *chat.Message, form wireForm) ([]byte, error) {
	w := &partWriter{model: q.model, form: form}
	switch msg.Role {
	case chat.User:
		if err := w.user(msg); err != nil {
			return nil, err
		}
	case chat.Assistant:
		w.assistant(msg)
	case chat.ToolRole:
		for _, r := range msg.ToolResults() {
			name := r.Name
			if name == "" {
				name = q.toolOf(r.ID)
			}
			w.result(r, name)
		}
	default:
		return nil, modelhttp.UnknownRole(msg)
	}
	return w.b, nil
}

func (w *partWriter) next() {
	if len(w.b) > 0 {
		w.b = append(w.b, ',')
	}
}

// text writes text, with its signature if it has one.
func (w *partWriter) text(text, signature string) {
	w.next()
	w.b = chat.AppendJSONString(append(w.b, `{"text":`...), text)
	w.end(signature)
}

// end ends a part with its signature.
func (w *partWriter) end(signature string) {
	if signature != "" {
		w.b = chat.AppendJSONString(append(w.b, `,"thoughtSignature":`...), signature)
	}
	w.b = append(w.b, '}')
}

// signature returns the signature of a part that goes back, "" for none.
func (w *partWriter) signature(extra chat.Extra) string {
	if w.form.signing == signNone {
		return ""
	}
	for _, m := range extra {
		var v vendor
		if m.Name == vendorMember && json.Unmarshal(m.Value, &v) == nil {
			return v.Signature
		}
	}
	return ""
}

func (w *partWriter) assistant(msg *chat.Message) {
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case *chat.Reasoning:
			if s := w.signature(p.Extra); s != "" {
				w.next()
				w.b = chat.AppendJSONString(append(w.b, `{"thought":true,"text":`...), p.Text)
				w.end(s)
			}
		case *chat.ToolCall:
			w.call(p)
		case *chat.Media:
			if len(p.Data) > 0 && p.MediaType != "" {
				w.inline(p)
				w.end(w.signature(p.Extra))
			} else {
				w.text(w.model.server.PartText(p), "")
			}
		case *chat.Unknown:
			w.foreign(p)
		case *chat.Text:
			if p.Text != "" {
				w.text(p.Text, w.signature(p.Extra))
			}
		default:
			if text := w.model.server.PartText(p); text != "" {
				w.text(text, "")
			}
		}
	}
}

// call writes a call. The service looks for the signature of the first call of a
// message only.
func (w *partWriter) call(c *chat.ToolCall) {
	w.next()
	w.b = append(w.b, `{"functionCall":{`...)
	w.id(c.ID)
	w.b = chat.AppendJSONString(append(w.b, `"name":`...), modelhttp.ToolName(c.Name))
	w.b = append(append(w.b, `,"args":`...), modelhttp.ArgumentsObject(c.Arguments)...)
	w.b = append(w.b, '}')
	signature := w.signature(c.Extra)
	if signature == "" && w.calls == 0 && w.form.signing != signOwn {
		signature = foreignSignature
	}
	w.calls++
	w.end(signature)
}

// id writes the id of a call or result, if the service knows it.
func (w *partWriter) id(id string) {
	if id != "" && !strings.HasPrefix(id, MadeID) {
		w.b = append(chat.AppendJSONString(append(w.b, `"id":`...), id), ',')
	}
}

func (w *partWriter) result(r *chat.ToolResult, tool string) {
	w.next()
	w.b = append(w.b, `{"functionResponse":{`...)
	w.id(r.ID)
	w.b = chat.AppendJSONString(append(w.b, `"name":`...), modelhttp.ToolName(tool))
	inside, beside, rest := w.splitMedia(r)
	w.b = append(w.b, `,"response":{`...)
	switch {
	case r.IsError:
		w.b = chat.AppendJSONString(append(w.b, `"error":`...), r.ContentText())
	case json.Valid(r.Content):
		w.b = append(append(w.b, `"output":`...), r.Content...)
	default: // absent, or made by a program
		w.b = chat.AppendJSONString(append(w.b, `"output":`...), string(r.Content))
	}
	if rest != "" {
		w.b = chat.AppendJSONString(append(w.b, `,"media":`...), rest)
	}
	w.b = append(w.b, '}')
	if len(inside) > 0 {
		parts := &partWriter{model: w.model, form: w.form}
		for _, m := range inside {
			parts.inline(m)
			parts.end("")
		}
		w.b = append(append(append(w.b, `,"parts":[`...), parts.b...), ']')
	}
	w.b = append(w.b, "}}"...)
	for _, m := range beside {
		if len(m.Data) > 0 {
			w.inline(m)
			w.end("")
		} else {
			w.file(m)
		}
	}
}

// splitMedia divides the media of a tool's result: models of generation 3 and later take
// images and documents in the result, the others, and other media, beside it. Sentences
// stand for the rest.
func (w *partWriter) splitMedia(r *chat.ToolResult) (inside, beside []*chat.Media, rest string) {
	shown, rest := modelhttp.SplitMedia(r, func(m *chat.Media) bool {
		return !w.form.noMedia && takes(m) && (len(m.Data) > 0 || w.model.checkAddress(m.URL) == nil)
	})
	for _, m := range shown {
		if w.model.generation >= 3 && len(m.Data) > 0 && !strings.HasPrefix(m.MediaType, "audio/") && !strings.HasPrefix(m.MediaType, "video/") {
			inside = append(inside, m)
		} else {
			beside = append(beside, m)
		}
	}
	return inside, beside, strings.TrimPrefix(rest, "\n")
}

// takes reports whether models take media of a type.
func takes(m *chat.Media) bool {
	return modelhttp.IsRasterImage(m) && m.MediaType != "image/gif" || modelhttp.IsPDF(m) ||
		strings.HasPrefix(m.MediaType, "audio/") || strings.HasPrefix(m.MediaType, "video/")
}

// inline writes media as data, up to the end of the part.
func (w *partWriter) inline(p *chat.Media) {
	w.next()
	w.b = chat.AppendJSONString(append(w.b, `{"inlineData":{"mimeType":`...), p.MediaType)
	w.b = append(w.b, `,"data":"`...)
	w.b = append(base64.StdEncoding.AppendEncode(w.b, p.Data), `"}`...)
}

// user writes a user's message.
func (w *partWriter) user(msg *chat.Message) error {
	for _, p := range msg.Parts {
		if media, ok := p.(*chat.Media); ok {
			if err := w.media(media); err != nil {
				return err
			}
		} else if text := w.model.server.PartText(p); text != "" {
			w.text(text, "")
		}
	}
	return nil
}

func (w *partWriter) media(p *chat.Media) error {
	if len(p.Data) > 0 {
		if p.MediaType == "" {
			return fault.Errorf(fault.InvalidArgument, "the user's message holds media without a type").
				WithHint("say what it is, such as image/png")
		}
		w.inline(p)
		w.b = append(w.b, '}')
		return nil
	}
	if err := w.model.checkAddress(p.URL); err != nil {
		return err
	}
	w.file(p)
	return nil
}

// file writes media as its address.
func (w *partWriter) file(p *chat.Media) {
	w.next()
	w.b = append(w.b, `{"fileData":{`...)
	if p.MediaType != "" {
		w.b = append(chat.AppendJSONString(append(w.b, `"mimeType":`...), p.MediaType), ',')
	}
	w.b = chat.AppendJSONString(append(w.b, `"fileUri":`...), p.URL)
	w.b = append(w.b, "}}"...)
}

// checkAddress refuses addresses outside the web: any tenant that guesses a name
// could read the account's own files, in the service or in a bucket.
func (m *Model) checkAddress(address string) error {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" &&
		!strings.EqualFold(u.Hostname(), m.host) && !isGoogles(u.Hostname()) {
		return nil
	}
	return fault.Errorf(fault.InvalidArgument, "the user's message holds media at an address that model %q is not shown", m.name).
		WithHint("send the data, or an http or https address that is not of the service's own files")
}

// isGoogles reports whether a host is one of Google's services, whose addresses
// the service may open with the account's rights.
func isGoogles(name string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name == "googleapis.com" || strings.HasSuffix(name, ".googleapis.com")
}

// notForeign are members of unknown parts that never go back: those with parts of
// their own, and those that no answer contains, which show a model data that the
// service keeps for the account. A client that keeps the conversation could have
// made them up.
var notForeign = []string{"functionCall", "functionResponse", "fileData", "inlineData"}

// foreign writes an unknown part unchanged. The part is written again from its
// checked members, because the service may read a duplicate member differently.
func (w *partWriter) foreign(p *chat.Unknown) {
	var f foreign
	var members map[string]json.RawMessage
	if p.Kind != foreignType || json.Unmarshal(p.JSON, &f) != nil || json.Unmarshal(f.Part, &members) != nil || !w.goesBack(members) {
		w.model.server.Logger().Debug("part not sent to model", "model", w.model.name, "type", p.Kind)
		return
	}
	if w.form.signing == signNone {
		delete(members, signatureMember)
		if len(members) == 1 && members["text"] != nil {
			return // it was a signature and nothing else
		}
	}
	part, err := json.Marshal(members)
	if err != nil {
		return // it was read as JSON
	}
	w.next()
	w.b = append(w.b, part...)
}

const signatureMember = "thoughtSignature"

// goesBack reports whether a part is one that an answer has and that there is no
// other part for. Names are compared as the service reads them, in both writings.
func (w *partWriter) goesBack(members map[string]json.RawMessage) bool {
	if len(members) == 0 {
		return false
	}
	for name, value := range members {
		plain := strings.ReplaceAll(name, "_", "")
		for _, not := range notForeign {
			if strings.EqualFold(plain, not) {
				return false
			}
		}
		if strings.EqualFold(plain, "text") && string(value) != `""` {
			return false
		}
	}
	return true
}
