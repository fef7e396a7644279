package geminimodel_test

// Scenario: the checks that models of every protocol pass.

import (
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/agenthost/agenthost/host/geminimodel"
	"github.com/agenthost/agenthost/host/internal/modeltest"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var newModel = named("m1")

// named makes models with a name.
func named(name string) modeltest.New {
	return func(t testing.TB, server modelhttp.Options) llm.Model {
		return modelWith(t, name, geminimodel.Options{Server: server})
	}
}

func modelWith(t testing.TB, name string, opts geminimodel.Options) *geminimodel.Model {
	t.Helper()
	m, err := geminimodel.New(name, &opts)
	return modeltest.Close(t, m, err)
}

func TestAnswersAreWholeWhereModelAndCallerSaySo(t *testing.T) {
	const call = `{"functionCall":{"id":"c1","name":"look","args":{"order":7}},"thoughtSignature":"c2ln"}`
	streamed := httptest.NewRecorder()
	stream(said("", `{"text":"Hm.","thought":true}`), said("", `{"text":"Hel"}`), said("", `{"text":"lo"}`), said("STOP", call))(streamed, nil)
	var paths []string
	modeltest.CheckWhole(t, modeltest.Whole{
		New: newModel,
		Streams: func(path, _ string) bool {
			paths = append(paths, path)
			return path == "/models/m1:streamGenerateContent"
		},
		Stream:   streamed.Body.String(),
		Document: said("STOP", `{"text":"Hm.","thought":true}`, `{"text":"Hello"}`, call),
	})
	if all := strings.Join(paths, " "); !strings.Contains(all, "/models/m1:generateContent") {
		t.Errorf("asked %s, want generateContent once", all)
	}
}

// Models of generation 3 and later take an image in the result, those before beside it.
func TestImagesOfToolsReachTheModel(t *testing.T) {
	for name, shown := range map[string]string{
		"gemini-3-pro":     `"response":{"output":"seen","media":"[application/x-odd not shown]"},"parts":[{"inlineData":{"mimeType":"image/png","data":"UE5H"}}]}}`,
		"gemini-2.5-flash": `"response":{"output":"seen","media":"[application/x-odd not shown]"}}},{"inlineData":{"mimeType":"image/png","data":"UE5H"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			modeltest.CheckToolMedia(t, modeltest.ToolMedia{
				New:     named(name),
				Stream:  "data: " + said("STOP", `{"text":"A cat."}`) + "\n\n",
				Refusal: `{"error":{"code":400,"message":"Unable to process input image.","status":"INVALID_ARGUMENT"}}`,
				Shown:   shown,
			})
		})
	}
}

func TestLongLinesTakeLittleMemory(t *testing.T) {
	line := func(begin, element, end string) string {
		return modeltest.Line("data: "+begin, element, end) + "\n\n" + "data: " + said("STOP", `{"text":"x"}`) + "\n\n"
	}
	newModel.CheckLines(t, map[string]string{
		"text":              line(`{"candidates":[{"content":{"parts":[{"text":"`, "abcdefg", `"}]}}]}`),
		"candidates":        line(`{"candidates":[`, `{}`, `]}`),
		"parts":             line(`{"candidates":[{"content":{"parts":[`, `{}`, `]}}]}`),
		"empty texts":       line(`{"candidates":[{"content":{"parts":[`, `{"text":""}`, `]}}]}`),
		"members of a part": line(`{"candidates":[{"content":{"parts":[{`, `"%d":0`, `}]}}]}`),
		"members":           line(`{`, `"%d":0`, `}`),
		"a document":        modeltest.Line(`{"candidates":[{"content":{"parts":[`, `{}`, `]},"finishReason":"STOP"}]}`),
		"an error":          line(`{"error":{"message":"`, "Word of ", `"}}`),
		"no JSON":           line(`<html>`, "a b c d", ``),
	})
}
