// Package pdkjson reads and writes a tool's arguments and results as Go types,
// with encoding/json. It stands beside package pdk because encoding/json adds
// 1.4 MB to a module that is 1.96 MB without; a plugin that does not import
// pdkjson does not pay.
package pdkjson

import (
	"encoding/json"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// Tool registers a tool whose arguments are decoded into In and whose result Out
// is encoded. Parameters is the JSON Schema of In, or "". A null or absent
// argument leaves its field zero.
func Tool[In, Out any](name, description, parameters string, handler func(c *pdk.Call, in In) (Out, error)) *pdk.ToolSpec {
	return ToolOf(pdk.Registered(), name, description, parameters, handler)
}

// ToolOf is Tool for a plugin other than the registered one.
func ToolOf[In, Out any](p *pdk.Plugin, name, description, parameters string, handler func(c *pdk.Call, in In) (Out, error)) *pdk.ToolSpec {
	return p.Tool(name, description, parameters, func(c *pdk.Call) error {
		var in In
		if err := Decode(c.Arguments, &in); err != nil {
			return err
		}
		out, err := handler(c, in)
		if err != nil {
			return err
		}
		content, err := Encode(out)
		if err != nil {
			return err
		}
		c.Return(content)
		return nil
	})
}

// Decode reads raw into what v points to. An absent raw leaves it alone. Errors
// have code [pdk.InvalidArgument].
func Decode(raw pdk.Raw, v any) error {
	if raw == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(raw), v); err != nil {
		return pdk.Errorf(pdk.InvalidArgument, "read JSON: %s", err)
	}
	return nil
}

// Encode returns v as JSON.
func Encode(v any) (pdk.Raw, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return "", pdk.Errorf(pdk.Internal, "write JSON: %s", err)
	}
	return pdk.Raw(out), nil
}
