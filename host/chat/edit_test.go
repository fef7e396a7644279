package chat_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
)

// letters returns one message for each letter, with that id and two parts.
func letters(ids string) []*chat.Message {
	var out []*chat.Message
	for _, id := range strings.Split(ids, "") {
		m := chat.NewMessage(chat.User, &chat.Text{Text: id + "0"}, &chat.Text{Text: id + "1"})
		m.ID = id
		out = append(out, m)
	}
	return out
}

func ids(messages []*chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.ID)
	}
	return b.String()
}

func named(id string) *chat.Message {
	m := chat.UserText("new")
	m.ID = id
	return m
}

func TestApplyEdits(t *testing.T) {
	for name, c := range map[string]struct {
		edits []chat.Edit
		want  string
	}{
		"nothing":                                {nil, "abcd"},
		"drops a range":                          {[]chat.Edit{chat.Drop{From: 1, To: 3}}, "ad"},
		"drops all":                              {[]chat.Edit{chat.Drop{From: 0, To: 4}}, ""},
		"drops twice against the same indices":   {[]chat.Edit{chat.Drop{From: 0, To: 1}, chat.Drop{From: 2, To: 3}}, "bd"},
		"inserts before":                         {[]chat.Edit{chat.Insert{At: 0, Message: named("x")}}, "xabcd"},
		"inserts at the end":                     {[]chat.Edit{chat.Insert{At: 4, Message: named("x")}}, "abcdx"},
		"inserts at one index in order":          {[]chat.Edit{chat.Insert{At: 1, Message: named("x")}, chat.Insert{At: 1, Message: named("y")}}, "axybcd"},
		"inserts where something is dropped":     {[]chat.Edit{chat.Drop{From: 1, To: 2}, chat.Insert{At: 1, Message: named("x")}}, "axcd"},
		"replaces":                               {[]chat.Edit{chat.Replace{At: 2, Message: named("x")}}, "abxd"},
		"drops one part":                         {[]chat.Edit{chat.DropPart{Message: 1, Part: 0}}, "abcd"},
		"a message that has lost its parts goes": {[]chat.Edit{chat.DropPart{Message: 1, Part: 1}, chat.DropPart{Message: 1, Part: 0}}, "acd"},
	} {
		t.Run(name, func(t *testing.T) {
			in := letters("abcd")
			got, err := chat.ApplyEdits(in, c.edits)
			if err != nil {
				t.Fatalf("ApplyEdits: %v", err)
			}
			if ids(got) != c.want {
				t.Errorf("ApplyEdits gives %q, want %q", ids(got), c.want)
			}
			if ids(in) != "abcd" || len(in[1].Parts) != 2 {
				t.Errorf("ApplyEdits changes its input to %q", ids(in))
			}
		})
	}
}

func TestDropPartKeepsTheOthers(t *testing.T) {
	got, err := chat.ApplyEdits(letters("a"), []chat.Edit{chat.DropPart{Message: 0, Part: 0}})
	if err != nil || len(got) != 1 || got[0].Text() != "a1" {
		t.Errorf("dropping part 0 leaves %v, %v; want a1", got, err)
	}
}

func TestEditsFillInWhatIsAbsent(t *testing.T) {
	in := letters("a")
	got, err := chat.ApplyEdits(in, []chat.Edit{
		chat.Replace{At: 0, Message: &chat.Message{Role: chat.User}}, chat.Insert{At: 1, Message: &chat.Message{Role: chat.User}}})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].ID != "a" || !got[0].CreatedAt.Equal(in[0].CreatedAt) {
		t.Errorf("a replacement without id and time gets %q, %v; want those of what it replaces", got[0].ID, got[0].CreatedAt)
	}
	if got[1].ID == "" || got[1].CreatedAt.IsZero() {
		t.Errorf("an insertion without id and time gets %q, %v", got[1].ID, got[1].CreatedAt)
	}
}

func TestEditsThatDoNotFit(t *testing.T) {
	m := named("x")
	for name, edits := range map[string][]chat.Edit{
		"drop of nothing":           {chat.Drop{From: 1, To: 1}},
		"drop backwards":            {chat.Drop{From: 2, To: 1}},
		"drop before the first":     {chat.Drop{From: -1, To: 1}},
		"drop past the end":         {chat.Drop{From: 0, To: 5}},
		"overlapping drops":         {chat.Drop{From: 0, To: 2}, chat.Drop{From: 1, To: 3}},
		"drop and replace":          {chat.Drop{From: 0, To: 2}, chat.Replace{At: 1, Message: m}},
		"two replacements":          {chat.Replace{At: 1, Message: m}, chat.Replace{At: 1, Message: m}},
		"replace past the end":      {chat.Replace{At: 4, Message: m}},
		"replace without a message": {chat.Replace{At: 1}},
		"drop part of a replaced":   {chat.Replace{At: 1, Message: m}, chat.DropPart{Message: 1, Part: 0}},
		"drop part twice":           {chat.DropPart{Message: 1, Part: 0}, chat.DropPart{Message: 1, Part: 0}},
		"drop part that is not":     {chat.DropPart{Message: 1, Part: 2}},
		"drop part before":          {chat.DropPart{Message: 1, Part: -1}},
		"drop part of no message":   {chat.DropPart{Message: 4, Part: 0}},
		"insert past the end":       {chat.Insert{At: 5, Message: m}},
		"insert before the first":   {chat.Insert{At: -1, Message: m}},
		"insert of nothing":         {chat.Insert{At: 0}},
		"nil":                       {nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := chat.ApplyEdits(letters("abcd"), edits); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("ApplyEdits gives %q, %v; want code %s", ids(got), err, fault.InvalidArgument)
			}
		})
	}
}

func TestDecodeEditsRefusesWhatItDoesNotKnow(t *testing.T) {
	const message = `{"role":"user","parts":[]}`
	for name, raw := range map[string]string{
		"not JSON":                  `[`,
		"not an array":              `{"drop":[0,1]}`,
		"an edit that is no object": `[1]`,
		"an unknown edit":           `[{"move":[0,1]}]`,
		"an edit with two members":  `[{"drop":[0,1],"drop_part":[0,1]}]`,
		"an edit given twice":       `[{"drop":[0,1],"drop":[1,2]}]`,
		"an empty edit":             `[{}]`,
		"a drop of one number":      `[{"drop":[0]}]`,
		"a drop of three numbers":   `[{"drop":[0,1,2]}]`,
		"a drop with null":          `[{"drop":[null,1]}]`,
		"a drop with a fraction":    `[{"drop":[0,1.5]}]`,
		"a drop with strings":       `[{"drop":["0","1"]}]`,
		"an insert without at":      `[{"insert":{"message":` + message + `}}]`,
		"an insert at null":         `[{"insert":{"at":null,"message":` + message + `}}]`,
		"an insert with two at":     `[{"insert":{"at":0,"at":1,"message":` + message + `}}]`,
		"an insert with two":        `[{"insert":{"at":0,"message":` + message + `,"message":` + message + `}}]`,
		"an insert of nothing":      `[{"insert":{"at":0}}]`,
		"an insert with more":       `[{"insert":{"at":0,"message":` + message + `,"why":1}}]`,
		"a replace with a bad role": `[{"replace":{"at":0,"message":{"role":"x","parts":[]}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if edits, err := chat.DecodeEdits([]byte(raw)); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("DecodeEdits(%s) gives %v, %v; want code %s", raw, edits, err, fault.InvalidArgument)
			}
		})
	}
}

func anyEdits(n int) *rapid.Generator[[]chat.Edit] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) chat.Edit {
		at := rapid.IntRange(0, n).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return chat.Drop{From: at, To: rapid.IntRange(0, n).Draw(t, "to")}
		case 1:
			return chat.DropPart{Message: at, Part: rapid.IntRange(0, 1).Draw(t, "part")}
		case 2:
			return chat.Insert{At: at, Message: named(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "name")))}
		}
		return chat.Replace{At: at, Message: named(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "name")))}
	}), 0, 5)
}

// Edits that fit do what they say one by one, from the last index to the first,
// where earlier ones cannot shift what later ones mean.
func TestEditsAgreeWithDoingThemOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := letters("abcdef")
		edits := anyEdits(len(in)).Draw(t, "edits")
		got, err := chat.ApplyEdits(in, edits)
		if err != nil {
			return
		}
		if want := oneByOne(in, edits); ids(got) != want {
			t.Errorf("ApplyEdits(%+v) gives %q, one by one %q", edits, ids(got), want)
		}
	})
}

func oneByOne(in []*chat.Message, edits []chat.Edit) string {
	parts := map[int]int{}
	out := ""
	for i := len(in); i >= 0; i-- {
		here, before := "", ""
		if i < len(in) {
			here = in[i].ID
		}
		for _, e := range edits {
			switch e := e.(type) {
			case chat.Drop:
				if i >= e.From && i < e.To {
					here = ""
				}
			case chat.DropPart:
				if i == e.Message {
					if parts[i]++; parts[i] == 2 {
						here = ""
					}
				}
			case chat.Replace:
				if i == e.At {
					here = e.Message.ID
				}
			case chat.Insert:
				if i == e.At {
					before += e.Message.ID
				}
			}
		}
		out = before + here + out
	}
	return out
}

func TestEditsSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edits := anyEdits(9).Draw(t, "edits")
		raw := chat.EncodeEdits(edits)
		back, err := chat.DecodeEdits(raw)
		if err != nil {
			t.Fatalf("DecodeEdits(%s): %v", raw, err)
		}
		if diff := cmp.Diff(string(raw), string(chat.EncodeEdits(back))); diff != "" {
			t.Errorf("edits come back changed:\n%s", diff)
		}
	})
}

// FuzzEdits: whatever a plugin sends is applied or refused, and never changes
// the view it was given.
func FuzzEdits(f *testing.F) {
	for _, seed := range []string{
		`[{"drop":[0,2]},{"drop_part":[3,1]},{"insert":{"at":4,"message":{"role":"user","parts":[]}}}]`,
		`[{"replace":{"at":1,"message":{"id":"x","role":"tool","parts":[{"type":"tool_result","id":"c","name":"n"}]}}}]`,
		`[{"drop":[-1,9223372036854775807]}]`, `[{"drop_part":[1,0]},{"drop_part":[1,1]}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		edits, err := chat.DecodeEdits(raw)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("DecodeEdits(%q): %v; want code %s", raw, err, fault.InvalidArgument)
			}
			return
		}
		in := letters("abcd")
		before := slices.Clone(in)
		got, err := chat.ApplyEdits(in, edits)
		if !slices.Equal(in, before) || len(in[0].Parts) != 2 {
			t.Errorf("edits %q change the view they are applied to", raw)
		}
		if err != nil && fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("ApplyEdits(%q): %v; want code %s", raw, err, fault.InvalidArgument)
		}
		for i, m := range got {
			if m == nil || m.ID == "" || m.CreatedAt.IsZero() {
				t.Errorf("edits %q leave message %d without an id or time", raw, i)
			}
		}
	})
}

// A processor trims the same messages each time that it sees them; what is known
// of what is left, its size and tokens, is kept.
func TestTrimmedMessagesAreKept(t *testing.T) {
	in := letters("abcd")
	trim := func(parts ...int) *chat.Message {
		t.Helper()
		var edits []chat.Edit
		for _, p := range parts {
			edits = append(edits, chat.DropPart{Message: 1, Part: p})
		}
		out, err := chat.ApplyEdits(in, edits)
		if err != nil {
			t.Fatal(err)
		}
		return out[1]
	}
	first := trim(0)
	if trim(0) != first {
		t.Error("the same trimming gives another message")
	}
	if other := trim(1); other == first || len(other.Parts) != 1 || other.Parts[0] != in[1].Parts[0] {
		t.Errorf("another trimming leaves %v", other.Parts)
	}
	in[1].Parts = append(in[1].Parts, &chat.Text{Text: "more"})
	if again := trim(0); len(again.Parts) != 2 || len(first.Parts) != 1 {
		t.Errorf("of a message that has grown %d parts are left, and of the one before %d", len(again.Parts), len(first.Parts))
	}
}

// Pairs that are written plainly are read without encoding/json, which must not
// show.
func FuzzPairs(f *testing.F) {
	for _, s := range []string{"[0,1]", "[10,20]", "[01,2]", "[1,2,3]", "[,]", "[1,]", "[ 1, 2 ]", "[-1,2]", "[1e2,3]", "[1234567890,1]", "[null,1]", "{}", "[\"1\",2]", "[[1],2]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		if !json.Valid([]byte(pair)) {
			return
		}
		var want []*int
		ok := json.Unmarshal([]byte(pair), &want) == nil && len(want) == 2 && want[0] != nil && want[1] != nil
		got, err := chat.DecodeEdits(json.RawMessage(`[{"drop":` + pair + `}]`))
		if ok != (err == nil) {
			t.Fatalf("DecodeEdits of %s: %v, but encoding/json takes it: %v", pair, err, ok)
		}
		if ok && got[0] != (chat.Drop{From: *want[0], To: *want[1]}) {
			t.Errorf("DecodeEdits of %s is %+v", pair, got[0])
		}
	})
}
