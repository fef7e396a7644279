package pdktest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func (h *Host) state() pdk.Raw {
	if h.State == "" {
		return "{}"
	}
	return h.State
}

func (h *Host) stateGet(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	path, _ := request.Get("path").Str()
	value, err := lookup(decode(h.state()), path)
	if err != nil {
		return "", err
	}
	var w pdk.Writer
	w.BeginObject().Key("value").Raw(encode(value)).Key("revision").Int(h.Revision).EndObject()
	return w.Value(), nil
}

func (h *Host) statePatch(request pdk.Raw) (pdk.Raw, *pdk.Error) {
	if at, ok := request.Get("revision").Int(); ok && at != h.Revision {
		return "", pdk.Errorf(pdk.Conflict, "state is at revision %d, not %d", h.Revision, at)
	}
	if err := h.patch(request.Get("patch")); err != nil {
		return "", err
	}
	var w pdk.Writer
	return w.BeginObject().Key("revision").Int(h.Revision).EndObject().Value(), nil
}

// patch applies RFC 6902 operations to the state, all or none.
func (h *Host) patch(ops pdk.Raw) *pdk.Error {
	document := decode(h.state())
	for op := range ops.Elements() {
		changed, err := applyOp(document, op)
		if err != nil {
			return err
		}
		document = changed
	}
	h.State = encode(document)
	h.Revision++
	return nil
}

func applyOp(document any, op pdk.Raw) (any, *pdk.Error) {
	kind, _ := op.Get("op").Str()
	path, _ := op.Get("path").Str()
	from, _ := op.Get("from").Str()
	switch kind {
	case "add":
		return place(document, tokens(path), decode(op.Get("value")), true)
	case "replace":
		return place(document, tokens(path), decode(op.Get("value")), false)
	case "remove":
		return remove(document, tokens(path))
	case "test":
		value, err := lookup(document, path)
		if err == nil && !reflect.DeepEqual(value, decode(op.Get("value"))) {
			err = pdk.Errorf(pdk.Conflict, "test of %q failed", path)
		}
		return document, err
	case "copy", "move":
		value, err := lookup(document, from)
		if err == nil && kind == "move" {
			document, err = remove(document, tokens(from))
		}
		if err != nil {
			return nil, err
		}
		return place(document, tokens(path), decode(encode(value)), true)
	}
	return nil, pdk.Errorf(pdk.InvalidArgument, "unknown operation %q", kind)
}

// tokens splits a JSON pointer.
func tokens(path string) []string {
	if path == "" {
		return nil
	}
	list := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, token := range list {
		list[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return list
}

func nowhere(token string) *pdk.Error {
	return pdk.Errorf(pdk.NotFound, "the path leads nowhere at %q", token)
}

func lookup(document any, path string) (any, *pdk.Error) {
	for _, token := range tokens(path) {
		switch v := document.(type) {
		case map[string]any:
			value, ok := v[token]
			if !ok {
				return nil, nowhere(token)
			}
			document = value
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, nowhere(token)
			}
			document = v[i]
		default:
			return nil, nowhere(token)
		}
	}
	return document, nil
}

// place returns document with value at the path, inserted there or replacing the
// present value.
func place(document any, path []string, value any, insert bool) (any, *pdk.Error) {
	if len(path) == 0 {
		return value, nil
	}
	token, rest := path[0], path[1:]
	switch v := document.(type) {
	case map[string]any:
		old, ok := v[token]
		if !ok && (len(rest) > 0 || !insert) {
			return nil, nowhere(token)
		}
		changed, err := place(old, rest, value, insert)
		if err != nil {
			return nil, err
		}
		v[token] = changed
		return v, nil
	case []any:
		i, ok := index(token, len(v))
		if !ok || i == len(v) && (len(rest) > 0 || !insert) {
			return nil, nowhere(token)
		}
		if len(rest) == 0 && insert {
			return slices.Insert(v, i, value), nil
		}
		changed, err := place(v[i], rest, value, insert)
		if err != nil {
			return nil, err
		}
		v[i] = changed
		return v, nil
	}
	return nil, nowhere(token)
}

// index reads an array index; "-" is the one after the last.
func index(token string, length int) (int, bool) {
	if token == "-" {
		return length, true
	}
	i, err := strconv.Atoi(token)
	return i, err == nil && i >= 0 && i <= length
}

func remove(document any, path []string) (any, *pdk.Error) {
	if len(path) == 0 {
		return nil, nil
	}
	token, rest := path[0], path[1:]
	switch v := document.(type) {
	case map[string]any:
		old, ok := v[token]
		if !ok {
			return nil, nowhere(token)
		}
		if len(rest) == 0 {
			delete(v, token)
			return v, nil
		}
		changed, err := remove(old, rest)
		v[token] = changed
		return v, err
	case []any:
		i, ok := index(token, len(v))
		if !ok || i == len(v) {
			return nil, nowhere(token)
		}
		if len(rest) == 0 {
			return slices.Delete(v, i, i+1), nil
		}
		changed, err := remove(v[i], rest)
		v[i] = changed
		return v, err
	}
	return nil, nowhere(token)
}

// decode reads JSON and keeps the spelling of numbers; any other text is nil.
func decode(r pdk.Raw) any {
	d := json.NewDecoder(strings.NewReader(string(r)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil
	}
	return v
}

func encode(v any) pdk.Raw {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null"
	}
	return pdk.Raw(bytes.TrimSpace(b.Bytes()))
}
