package tokens

import "strings"

// EncodingForModel returns the encoding of a model, and whether the model is
// known to use it. If it is not, the name is [DefaultEncoding] and a count
// with it is a guess: show it as such, or use [Approximate].
//
// A fine-tuned model (ft:gpt-4o-mini:...) counts like the one it is made
// from. A leading "openai/", which routers of many vendors put there, is
// ignored; other vendors have vocabularies of their own.
func EncodingForModel(model string) (name string, exact bool) {
	model = strings.TrimPrefix(model, "openai/")
	model = strings.TrimPrefix(model, "ft:")
	model, _, _ = strings.Cut(model, ":")
	for _, m := range modelEncodings() {
		stem, isPrefix := strings.CutSuffix(m.models, "*")
		if model == stem || isPrefix && strings.HasPrefix(model, stem) {
			return m.encoding, true
		}
	}
	return DefaultEncoding, false
}

// A modelEncoding says which encoding a model uses, or all models with the
// prefix before a star.
type modelEncoding struct{ models, encoding string }

// modelEncodings lists the known models. No model meets two rows that differ.
//
// Deliberately absent: text-embedding-*, as other vendors use that prefix
// too, and gpt-4.*, as a version yet to come may have a new vocabulary.
func modelEncodings() []modelEncoding {
	return []modelEncoding{
		{"gpt-5*", O200kBase},
		{"gpt-4.5*", O200kBase},
		{"gpt-4.1*", O200kBase},
		{"gpt-4o*", O200kBase},
		{"chatgpt-4o*", O200kBase},
		{"o1", O200kBase}, {"o1-*", O200kBase},
		{"o3", O200kBase}, {"o3-*", O200kBase},
		{"o4", O200kBase}, {"o4-*", O200kBase},
		{"gpt-oss*", O200kBase}, // o200k_harmony: the same but for special tokens

		{"gpt-4", Cl100kBase}, {"gpt-4-*", Cl100kBase},
		{"gpt-3.5*", Cl100kBase},
		{"gpt-35-turbo*", Cl100kBase}, // the name at Azure
		{"text-embedding-ada-002*", Cl100kBase},
		{"text-embedding-3-*", Cl100kBase},
		{"davinci-002", Cl100kBase}, {"babbage-002", Cl100kBase},

		{"text-davinci-002", P50kBase}, {"text-davinci-003", P50kBase},
		{"code-davinci-*", P50kBase}, {"code-cushman-*", P50kBase},
		{"davinci-codex", P50kBase}, {"cushman-codex", P50kBase},
		{"text-davinci-edit-001", P50kBase}, // p50k_edit: the same but for special tokens

		{"text-davinci-001", R50kBase}, {"text-curie-001", R50kBase},
		{"text-babbage-001", R50kBase}, {"text-ada-001", R50kBase},
		{"davinci", R50kBase}, {"curie", R50kBase}, {"babbage", R50kBase}, {"ada", R50kBase},
		{"text-similarity-*", R50kBase}, {"text-search-*", R50kBase}, {"code-search-*", R50kBase},

		{"gpt2", GPT2}, {"gpt-2", GPT2},
	}
}
