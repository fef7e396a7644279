package openaimodel_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// fakeModelVariable makes this test a server that benchmarks ask: see
// serveFakeModel.
const fakeModelVariable = "AGENTHOST_FAKE_MODEL"

// serveFakeModel serves a model that costs next to nothing until its standard
// input is closed. Its base URL is /ROUNDS/CHUNKS/v1: it calls a tool until as
// many rounds have come, and answers then, in as many chunks. With ?every=D it
// sends one every D, which says when it was sent.
func serveFakeModel() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{rounds}/{chunks}/v1/chat/completions", answerFake)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(l, mux))
}

// fakeAnswer is 13 pieces of fakePieceBytes.
const fakeAnswer = "It was sent on Monday and should arrive on Thursday; the carrier will tell you when it is at the door. " +
	"If it is not there by Friday, write to us again with the number of the order, and we send you another one"

const fakePieceBytes = 16

// fakePiece is the text of chunk i of an answer in several.
func fakePiece(i int) string {
	at := i * fakePieceBytes % len(fakeAnswer)
	return fakeAnswer[at:min(at+fakePieceBytes, len(fakeAnswer))]
}

func answerFake(w http.ResponseWriter, r *http.Request) {
	rounds, _ := strconv.Atoi(r.PathValue("rounds"))
	chunks, _ := strconv.Atoi(r.PathValue("chunks"))
	every, _ := time.ParseDuration(r.FormValue("every"))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	calls := bytes.Count(body, []byte(`"role":"tool"`)) < rounds-1
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, fakeDocument(calls))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if calls {
		chunks = 1
	}
	fakeStream(w, calls, chunks, every)
}

const fakeToolCall = `"tool_calls":[{"index":0,"id":"call_1042","type":"function","function":{"name":"look","arguments":"{\"order\":1042}"}}]`

func fakeDocument(calls bool) string {
	message, reason := `"content":"`+fakeAnswer+`"`, "stop"
	if calls {
		message, reason = `"content":null,`+fakeToolCall, "tool_calls"
	}
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1735689600,"model":"m1","choices":[{"index":0,"message":{"role":"assistant",` + message +
		`},"logprobs":null,"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":40,"completion_tokens":20,"total_tokens":60}}`
}

// fakeStream sends an answer, one piece at a time if there are several.
func fakeStream(w http.ResponseWriter, calls bool, chunks int, every time.Duration) {
	send := func(choices, usage string) {
		fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1735689600,"model":"m1","system_fingerprint":"fp_1","choices":[%s],"usage":%s}`+"\n\n", choices, usage)
	}
	piece := func(delta string) { send(`{"index":0,"delta":`+delta+`,"logprobs":null,"finish_reason":null}`, "null") }
	switch {
	case calls:
		piece(`{"role":"assistant","content":null,` + fakeToolCall + `}`)
	case chunks == 1:
		piece(`{"role":"assistant","content":"` + fakeAnswer + `"}`)
	default:
		flush := http.NewResponseController(w).Flush
		next := time.Now()
		for i := range chunks {
			text := fakePiece(i)
			if every > 0 {
				next = next.Add(every)
				time.Sleep(time.Until(next))
				text = strconv.FormatInt(time.Now().UnixNano(), 10)
			}
			piece(`{"content":"` + text + `"}`)
			_ = flush()
		}
	}
	reason := "stop"
	if calls {
		reason = "tool_calls"
	}
	send(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"`+reason+`"}`, "null")
	send("", `{"prompt_tokens":40,"completion_tokens":20,"total_tokens":60}`)
	io.WriteString(w, "data: [DONE]\n\n")
}
