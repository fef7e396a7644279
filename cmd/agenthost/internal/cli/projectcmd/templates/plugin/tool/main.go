// Command example is a plugin with a tool, which models call.
package main

import (
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// arguments is the JSON Schema of the tool's arguments; the host holds the model to it.
const arguments = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{
	"text":{"type":"string","description":"The text whose words are counted."}}}`

func init() {
	pdk.Describe(pdk.Manifest{Name: "example", Version: "0.1.0", Description: "Counts words."})
	pdk.Tool("count_words", "Counts the words of a text.", arguments, countWords).ReadOnly = true
}

func main() {} // never runs: the host calls what init has registered

func countWords(c *pdk.Call) error {
	text := c.String("text")
	if strings.TrimSpace(text) == "" {
		return pdk.Errorf(pdk.InvalidArgument, "The text is empty. Ask for one.") // the model reads this
	}
	c.Text(strconv.Itoa(len(strings.Fields(text))))
	return nil
}
