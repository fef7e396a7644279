package scriptedmodel

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"net/http"
	"strings"
)

// The bounds of a request for embeddings, and the length of a vector where the request says
// none.
const (
	maxEmbedTexts     = 2048
	maxDimensions     = 4096
	defaultDimensions = 256
)

type embedRequest struct {
	Input      any `json:"input"` // a text or a list of texts
	Dimensions int `json:"dimensions"`
}

// serveEmbeddings answers with vectors of the texts' spelling: see [Embed].
func (h *Handler) serveEmbeddings(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("read request: it broke off, or has more than %d bytes", maxRequestBytes))
		return
	}
	var req embedRequest
	texts, ok := []string(nil), json.Unmarshal(raw, &req) == nil
	if ok {
		texts, ok = textsOf(req.Input)
	}
	if !ok || len(texts) == 0 || len(texts) > maxEmbedTexts || req.Dimensions < 0 || req.Dimensions > maxDimensions {
		writeError(w, http.StatusBadRequest, "invalid_request_error",
			fmt.Sprintf("embeddings are of 1 to %d texts in input, with at most %d dimensions", maxEmbedTexts, maxDimensions))
		return
	}
	if req.Dimensions == 0 {
		req.Dimensions = defaultDimensions
	}
	data, tokens := make([]any, len(texts)), 0
	for i, text := range texts {
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": Embed(text, req.Dimensions)}
		tokens += len(strings.Fields(text))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "model": h.name, "data": data,
		"usage": map[string]any{"prompt_tokens": tokens, "total_tokens": tokens}})
}

func textsOf(input any) ([]string, bool) {
	switch in := input.(type) {
	case string:
		return []string{in}, true
	case []any:
		texts := make([]string, len(in))
		for i, v := range in {
			text, ok := v.(string)
			if !ok {
				return nil, false
			}
			texts[i] = text
		}
		return texts, true
	}
	return nil, false
}

// Embed returns a vector of length 1 of a text's spelling: texts that share many sequences of
// three letters have vectors of like direction, so that a word is near its inflections and
// misspellings. It knows nothing of meanings. The same text always has the same vector.
func Embed(text string, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		letters := []rune("<" + strings.Trim(word, ".,;:!?\"'()") + ">")
		for i := 0; i+3 <= len(letters); i++ {
			h := fnv.New32a()
			io.WriteString(h, string(letters[i:i+3]))
			sum := h.Sum32()
			sign := float32(1)
			if sum>>31 == 1 {
				sign = -1
			}
			v[int(sum&math.MaxInt32)%dimensions] += sign
		}
	}
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	if square == 0 {
		v[0], square = 1, 1
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(square))
	}
	return v
}
