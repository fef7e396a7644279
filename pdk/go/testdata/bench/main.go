package main

import (
	"encoding/json"

	pdk "github.com/agenthost/agenthost/pdk/go"
)

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
}
type message struct {
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Agent     string          `json:"agent,omitempty"`
	Parts     []part          `json:"parts"`
	CreatedAt string          `json:"created_at"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

func init() {
	pdk.Processor("all", func(c *pdk.Process) error {
		for i, m := range c.Messages() {
			c.Replace(i, m)
		}
		return nil
	})
	pdk.Processor("none", func(c *pdk.Process) error {
		return c.Map(func(*pdk.Message) error { return nil })
	})
	pdk.OutlineProcessor("o", func(c *pdk.Process) error { c.Drop(0, 1); return nil })
	pdk.Tool("json", "", "", func(c *pdk.Call) error {
		var messages []message
		if err := json.Unmarshal([]byte(c.Arguments), &messages); err != nil {
			return err
		}
		b, err := json.Marshal(messages)
		c.Return(pdk.Raw(b))
		return err
	})
	pdk.Tool("echo", "", "", func(c *pdk.Call) error {
		c.Return(c.Arguments)
		return nil
	})
}

func main() {}
