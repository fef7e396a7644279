// Command scores is a plugin: two tools that keep what they count. The host stores it for each
// tenant.
package main

import (
	"strconv"
	"strings"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

const prefix = "score/"

func init() {
	pdk.Describe(pdk.Manifest{Name: "scores", Version: "1.0.0", Description: "Keeps the scores of players.",
		Permissions: pdk.Permissions{KV: pdk.AccessWrite}})
	pdk.Tool("score", "Adds points to a player's score.", `{
		"type": "object", "additionalProperties": false, "required": ["player", "points"],
		"properties": {
			"player": {"type": "string", "minLength": 1, "maxLength": 100},
			"points": {"type": "integer", "minimum": -1000, "maximum": 1000}}
	}`, score)
	pdk.Tool("scores", "Lists the scores of all players.", `{"type": "object"}`, scores).ReadOnly = true
}

func main() {} // never runs: the host calls what init has registered

func score(c *pdk.Call) error {
	player, points := c.String("player"), c.Int("points")
	item, err := pdk.KVGet(prefix + player)
	if err != nil && pdk.CodeOf(err) != pdk.NotFound {
		return err
	}
	old, _ := strconv.Atoi(string(item.Value)) // 0 for a new player
	total := old + points
	// If another call was faster, this one fails with Conflict.
	if _, err := pdk.KVPut(prefix+player, strconv.AppendInt(nil, int64(total), 10), pdk.KVPutOptions{If: true, At: item.Revision}); err != nil {
		return err
	}
	c.JSON().BeginObject().Key("player").Str(player).Key("score").Int(int64(total)).EndObject()
	return nil
}

func scores(c *pdk.Call) error {
	list := c.JSON().BeginArray()
	for page := (pdk.KVQuery{Prefix: prefix, Values: true}); ; {
		items, next, err := pdk.KVList(page)
		if err != nil {
			return err
		}
		for _, item := range items {
			total, _ := strconv.ParseInt(string(item.Value), 10, 64) // score has written it
			list.BeginObject().Key("player").Str(strings.TrimPrefix(item.Key, prefix)).Key("score").Int(total).EndObject()
		}
		if next == "" {
			list.EndArray()
			return nil
		}
		page.After = next
	}
}
