package historytest

import (
	"strconv"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

// tools are the names of tools in drawn conversations.
var tools = []string{"a", "b", "c"}

// Draw draws a conversation that is whole: calls, some in parallel, with all
// their results; ids may be used again later. The last answer may be waiting.
func Draw(t *rapid.T) []pdk.Message {
	var out []pdk.Message
	id := 0
	for range rapid.IntRange(0, 8).Draw(t, "turns") {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			out = append(out, drawText(t, pdk.RoleSystem))
		case 1:
			out = append(out, drawText(t, pdk.RoleUser))
		case 2:
			out = append(out, drawText(t, pdk.RoleAssistant))
		default:
			out = append(out, drawRound(t, &id, true)...)
		}
	}
	if rapid.Bool().Draw(t, "waiting") {
		out = append(out, drawRound(t, &id, false)...)
	}
	return identify(out)
}

func drawText(t *rapid.T, role string) pdk.Message {
	return pdk.NewMessage(role, pdk.TextPart(rapid.StringMatching(`[x-z]{1,9}`).Draw(t, "text")))
}

// drawRound draws an answer with calls, in one message or several, and results.
func drawRound(t *rapid.T, id *int, answered bool) []pdk.Message {
	if rapid.IntRange(0, 3).Draw(t, "ids begin again") == 0 {
		*id = 0
	}
	var calls []pdk.Part
	for range rapid.IntRange(1, 4).Draw(t, "calls") {
		*id++
		calls = append(calls, pdk.ToolCallPart(strconv.Itoa(*id), rapid.SampledFrom(tools).Draw(t, "tool"), `{}`))
	}
	out := drawCalls(t, calls)
	results := rapid.Permutation(calls).Draw(t, "results")
	if !answered {
		results = results[:rapid.IntRange(0, len(results)-1).Draw(t, "answered")]
	}
	for _, c := range results {
		out = append(out, pdk.NewMessage(pdk.RoleTool, pdk.ToolResultPart(c.ID, c.Name, `"ok"`)))
	}
	return out
}

func drawCalls(t *rapid.T, calls []pdk.Part) []pdk.Message {
	if rapid.IntRange(0, 3).Draw(t, "a message each") == 0 {
		var out []pdk.Message
		for _, c := range calls {
			out = append(out, pdk.NewMessage(pdk.RoleAssistant, c))
		}
		return out
	}
	m := pdk.NewMessage(pdk.RoleAssistant)
	if rapid.Bool().Draw(t, "says something") {
		m = drawText(t, pdk.RoleAssistant)
	}
	m.Parts = append(m.Parts, calls...)
	return []pdk.Message{m}
}

// DrawAny draws a conversation in which anything may stand anywhere.
func DrawAny(t *rapid.T) []pdk.Message {
	part := rapid.Custom(func(t *rapid.T) pdk.Part {
		id := rapid.SampledFrom([]string{"1", "2", "3", ""}).Draw(t, "id")
		name := rapid.SampledFrom(append([]string{""}, tools...)).Draw(t, "tool")
		switch rapid.IntRange(0, 2).Draw(t, "type") {
		case 0:
			return pdk.ToolCallPart(id, name, `{}`)
		case 1:
			return pdk.ToolResultPart(id, name, `"ok"`)
		}
		return pdk.TextPart(rapid.StringMatching(`[x-z]{0,9}`).Draw(t, "text"))
	})
	role := rapid.SampledFrom([]string{pdk.RoleSystem, pdk.RoleUser, pdk.RoleAssistant, pdk.RoleAssistant, pdk.RoleTool, pdk.RoleTool})
	message := rapid.Custom(func(t *rapid.T) pdk.Message {
		return pdk.NewMessage(role.Draw(t, "role"), rapid.SliceOfN(part, 0, 4).Draw(t, "parts")...)
	})
	return identify(rapid.SliceOfN(message, 0, 12).Draw(t, "messages"))
}
