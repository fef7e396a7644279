package responsesmodel_test

// Scenario: the checks that models of every protocol pass.

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/responsesmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var newModel modeltest.New = func(t testing.TB, server modelhttp.Options) llm.Model {
	return modelWith(t, responsesmodel.Options{Server: server})
}

// storingModel has the service keep the conversation.
var storingModel modeltest.New = func(t testing.TB, server modelhttp.Options) llm.Model {
	return modelWith(t, responsesmodel.Options{Server: server, Store: true})
}

func modelWith(t testing.TB, opts responsesmodel.Options) *responsesmodel.Model {
	t.Helper()
	m, err := responsesmodel.New("gpt-5-mini", &opts)
	return modeltest.Close(t, m, err)
}

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	streamed := modeltest.Recorded(t, "tools")
	modeltest.CheckWhole(t, modeltest.Whole{
		New:      newModel,
		Streams:  func(_, body string) bool { return strings.Contains(body, `"stream":true`) },
		Stream:   string(streamed),
		Document: completedResponse(t, streamed),
	})
}

// completedResponse returns the response object at the end of a stream, which is the
// document of a service that is asked for no stream.
func completedResponse(t *testing.T, stream []byte) string {
	t.Helper()
	_, last, found := bytes.Cut(stream, []byte("event: response.completed\n"))
	_, object, opens := bytes.Cut(last, []byte(`"response":`))
	object, _, ends := bytes.Cut(object, []byte("\n"))
	if !found || !opens || !ends {
		t.Fatal("the recorded stream has no response.completed")
	}
	return string(bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}")))
}

func TestImagesOfToolsReachTheModel(t *testing.T) {
	modeltest.CheckToolMedia(t, modeltest.ToolMedia{
		New:     newModel,
		Stream:  string(modeltest.Recorded(t, "tools")),
		Refusal: `{"error":{"message":"The image data you provided does not represent a valid image.","type":"invalid_request_error","code":"invalid_value"}}`,
		Shown: `{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"seen\n[application/x-odd not shown]"},` +
			`{"type":"input_image","image_url":"data:image/png;base64,UE5H"}]}`,
	})
}

func TestLongLinesTakeLittleMemory(t *testing.T) {
	const completed = "data: " + `{"type":"response.completed","response":{"id":"r1","status":"completed"}}` + "\n\n"
	line := func(begin, element, end string) string {
		return modeltest.Line("data: "+begin, element, end) + "\n\n" + completed
	}
	last := func(begin, element, end string) string {
		return modeltest.Line(`data: {"type":"response.completed","response":{"id":"r1","status":"completed",`+begin, element, end+`}}`) + "\n\n"
	}
	newModel.CheckLines(t, map[string]string{
		"text":                line(`{"type":"response.output_text.delta","delta":"`, "abcdefg", `"}`),
		"escaped text":        line(`{"type":"response.output_text.delta","delta":"`, `\"`, `"}`),
		"text of an item":     line(`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"`, "abcdefg", `"}]}}`),
		"parts of an item":    line(`{"type":"response.output_item.done","item":{"type":"message","content":[`, `{}`, `]}}`),
		"parts of a new item": line(`{"type":"response.output_item.added","item":{"type":"message","content":[`, `{}`, `]}}`),
		"summary of an item":  line(`{"type":"response.output_item.done","item":{"type":"reasoning","summary":[`, `{}`, `]}}`),
		"members of an item":  line(`{"type":"response.output_item.done","item":{"type":"x",`, `"%d":0`, `}}`),
		"members of an event": line(`{"type":"x",`, `"%d":0`, `}`),
		"output":              last(`"output":[`, `{}`, `]`),
		"text of the output":  last(`"output":[{"type":"message","content":[{"type":"output_text","text":"`, "abcdefg", `"}]}]`),
		"parts of the output": last(`"output":[{"type":"message","content":[`, `{}`, `]}]`),
		"many parts of many":  last(`"output":[`, `{"type":"message","content":[`+strings.Repeat("{},", 1400)+`{}]}`, `]`),
		"annotations":         last(`"output":[{"type":"message","content":[{"type":"output_text","text":"x","annotations":[`, `{}`, `]}]}]`),
		"a document":          modeltest.Line(`{"status":"completed","output":[`, `{}`, `]}`),
		"texts of a document": modeltest.Line(`{"status":"completed","output":[{"type":"message","content":[`, `{"type":"output_text","text":"x"}`, `]}]}`),
		"an error":            line(`{"type":"error","error":{"message":"`, "Word of ", `"}}`),
		"no JSON":             line(`<html>`, "a b c d", ``),
	})
}

// FuzzStream reads any bytes as the service's answer.
func FuzzStream(f *testing.F) {
	checkNothing := func(*testing.T, modeltest.Outcome) {} // the last event may say other things than the deltas
	storingModel.Fuzz(f, checkNothing, "", `{"status":"queued","output":[]}`, `{"output":[{"type":"x"},7]}`, `data: {"type":"error","code":"x"}`,
		`data: {"type":"response.output_item.done","output_index":-1,"item":{"type":"function_call"}}`+"\n\n"+`data: {"type":"response.completed","response":{}}`,
		`data: {"type":"response.completed"}`, `data: {"type":"response.completed","response":null}`, `data: [DONE]`)
}
