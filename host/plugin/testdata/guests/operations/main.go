// Command operations is a guest that uses the host operations by the Go kit.
package main

import (
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{Name: "operations", Permissions: pdk.Permissions{
		KV: pdk.AccessWrite, Model: true, Queue: true,
		HTTP:    []pdk.HTTPPermission{{Host: "api.example.com"}},
		Secrets: []pdk.SecretPermission{{Name: "KEY", Hosts: []string{"api.example.com"}}},
	}})
	pdk.Tool("count", "Counts its calls.", "", count)
	pdk.Tool("fetch", "Fetches a page.", "", fetch)
	pdk.Tool("keep", "Keeps 100 kB a hundred times.", "", keep)
	pdk.Tool("ask", "Asks a model.", "", ask)
	pdk.Tool("later", "Leaves work for later.", "", later)
	pdk.Tool("once", "Does a step, and then again.", "", once)
	pdk.Tool("draw", "Makes an artifact, and reads it.", "", draw)
}

func main() {}

func count(c *pdk.Call) error {
	item, err := pdk.KVGet("n")
	if err != nil && pdk.CodeOf(err) != pdk.NotFound {
		return err
	}
	n := len(item.Value) + 1
	if _, err := pdk.KVPut("n", make([]byte, n), pdk.KVPutOptions{If: true, At: item.Revision}); err != nil {
		return err
	}
	keys, _, err := pdk.KVList(pdk.KVQuery{Values: true})
	if err != nil {
		return err
	}
	c.Text(keys[0].Key + strconv.Itoa(len(keys[0].Value)))
	return nil
}

func keep(*pdk.Call) error {
	put := pdk.Raw(`{"key":"large","value":"` + strings.Repeat("AAAA", 33_334) + `"}`)
	for range 100 {
		if _, err := pdk.HostCall("kv.put", put); err != nil {
			return err
		}
	}
	return nil
}

func fetch(c *pdk.Call) error {
	res, err := pdk.Fetch(pdk.HTTPRequest{URL: "https://api.example.com/page", Headers: []pdk.Header{{Name: "Authorization", Prefix: "Bearer ", Secret: "KEY"}}})
	if err != nil {
		return err
	}
	c.Text(strconv.Itoa(res.Status) + " " + res.Header("x-a") + " " + string(res.Body))
	return nil
}

func ask(c *pdk.Call) error {
	answer, err := pdk.Generate(pdk.Question{Messages: []pdk.Message{pdk.NewMessage("user", pdk.TextPart("Sum it up."))}})
	if err != nil {
		return err
	}
	c.Text(answer.Message.Text())
	return nil
}

func later(c *pdk.Call) error {
	_, err := pdk.Send("count", "{}", pdk.SendOptions{IdempotencyKey: "once"})
	return err
}

// once fails in its step the first time, does it the second, and is told of that
// the third.
func once(c *pdk.Call) error {
	runs := 0
	step := func() (pdk.Raw, error) {
		return pdk.Step("pay", pdk.StepOptions{}, func() (pdk.Raw, error) {
			if runs++; runs == 1 {
				return "", pdk.Errorf(pdk.Unavailable, "not now")
			}
			return pdk.Raw(`{"receipt":` + strconv.Itoa(runs) + `}`), nil
		})
	}
	_, first := step()
	second, err := step()
	if err != nil {
		return err
	}
	third, err := step()
	if err != nil {
		return err
	}
	c.Text(string(pdk.CodeOf(first)) + " " + string(second) + " " + string(third) + " " + strconv.Itoa(runs))
	return nil
}

func draw(c *pdk.Call) error {
	if _, err := pdk.WriteArtifact("drawing", "image/svg+xml", make([]byte, 300_000)); err != nil {
		return err
	}
	data, mediaType, err := pdk.ReadArtifact("drawing")
	if err != nil {
		return err
	}
	c.Text(strconv.Itoa(len(data)) + " " + mediaType)
	return nil
}
