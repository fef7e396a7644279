// Command translate is a plugin: a tool that asks a server for a translation, with a key that
// the plugin never sees.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "translate", Version: "1.0.0", Description: "Translates texts.",
		Permissions: pdk.Permissions{
			HTTP:    []pdk.HTTPPermission{{Host: "translate.example.com", Port: 8443, Methods: []string{"POST"}}},
			Secrets: []pdk.SecretPermission{{Name: "translate_key", Hosts: []string{"translate.example.com:8443"}}},
		}})
	pdk.Tool("translate", "Translates a text into another language.", `{
		"type": "object", "additionalProperties": false, "required": ["text", "to"],
		"properties": {"text": {"type": "string"}, "to": {"type": "string", "description": "A language code, such as de."}}
	}`, translate).ReadOnly = true
}

func main() {} // never runs: the host calls what init has registered

func translate(c *pdk.Call) error {
	var question pdk.Writer
	question.BeginObject().Key("text").Str(c.String("text")).Key("to").Str(c.String("to")).EndObject()
	response, err := pdk.Fetch(pdk.HTTPRequest{
		Method:  "POST",
		URL:     "https://translate.example.com:8443/v1/translate",
		Headers: []pdk.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Authorization", Prefix: "Bearer ", Secret: "translate_key"}},
		Body:    []byte(question.Value()),
	})
	if err != nil {
		return err
	}
	if response.Status != 200 {
		failed := pdk.Errorf(pdk.Unavailable, "the translation server answers with status %d", response.Status)
		failed.Retryable = response.Status >= 500
		return failed
	}
	answer := pdk.Raw(response.Body)
	text, ok := answer.Get("text").Str()
	if !ok {
		return pdk.Errorf(pdk.Unavailable, "the translation server's answer has no text")
	}
	c.JSON().BeginObject().Key("text").Str(text).EndObject()
	return nil
}
