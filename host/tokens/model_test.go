package tokens_test

import (
	"testing"

	"github.com/agenthost/agenthost/host/tokens"
	"github.com/pkoukk/tiktoken-go"
)

func TestEncodingForModel(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		encoding string
		exact    bool
		models   []string
	}{
		{tokens.O200kBase, true, []string{
			"gpt-5", "gpt-5-mini", "gpt-5-2025-08-07", "gpt-5.1", "o1", "o1-preview", "o1-mini-2024-09-12", "o3", "o3-mini", "o4-mini",
			"gpt-4.1", "gpt-4.1-nano", "gpt-4.5-preview", "gpt-4o", "gpt-4o-mini", "gpt-4o-2024-08-06", "chatgpt-4o-latest", "gpt-oss-120b",
			"openai/gpt-4o", "openai/o3-mini:free", "ft:gpt-4o-mini-2024-07-18:acme::abc",
		}},
		{tokens.Cl100kBase, true, []string{
			"gpt-4", "gpt-4-0613", "gpt-4-32k", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-3.5-turbo-16k", "gpt-35-turbo", "ft:gpt-3.5-turbo:acme::abc",
			"text-embedding-ada-002", "text-embedding-3-small", "text-embedding-3-large", "davinci-002", "ft:babbage-002:acme",
		}},
		{tokens.P50kBase, true, []string{"text-davinci-002", "text-davinci-003", "code-davinci-002", "code-cushman-001", "text-davinci-edit-001"}},
		{tokens.R50kBase, true, []string{"davinci", "curie", "babbage", "ada", "text-davinci-001", "text-similarity-ada-001", "davinci:ft-acme-2023"}},
		{tokens.GPT2, true, []string{"gpt2", "gpt-2"}},
		{tokens.O200kBase, false, []string{
			"", "claude-sonnet-4", "gemini-2.5-pro", "llama3", "mistral-large", "gpt-4.9", "gpt", "o12", "o1x",
			"text-embedding-004", "other/gpt-4o", "davinci2", "scripted",
		}},
	} {
		for _, model := range row.models {
			name, exact := tokens.EncodingForModel(model)
			if name != row.encoding || exact != row.exact {
				t.Errorf("EncodingForModel(%q) = %q, %v, want %q, %v", model, name, exact, row.encoding, row.exact)
			}
		}
	}
}

// TestModelsAgreeWithTiktoken compares with tiktoken-go's own list, of which
// p50k_edit is p50k_base to us, as it differs by special tokens only.
func TestModelsAgreeWithTiktoken(t *testing.T) {
	t.Parallel()
	for model, want := range tiktoken.MODEL_TO_ENCODING {
		if want == tiktoken.MODEL_P50K_EDIT {
			want = tokens.P50kBase
		}
		if name, exact := tokens.EncodingForModel(model); name != want || !exact {
			t.Errorf("EncodingForModel(%q) = %q, %v, want %q, true", model, name, exact, want)
		}
	}
	for prefix, want := range tiktoken.MODEL_PREFIX_TO_ENCODING {
		if name, exact := tokens.EncodingForModel(prefix + "2030-01-01"); name != want || !exact {
			t.Errorf("EncodingForModel(%q...) = %q, %v, want %q, true", prefix, name, exact, want)
		}
	}
}
