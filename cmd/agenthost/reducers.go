package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/reduce"
)

// reducePrefix begins the names of the reducers of package reduce where a
// configuration names processors: reduce:counting.
const reducePrefix = "reduce:"

// reducerKind is a reducer that a configuration can name. A configuration that is
// a bare number is that of the key number.
type reducerKind struct {
	number string
	make   func(a *app, at place, config any) (reduce.Reducer, error)
	asks   bool // a model
}

// reducerOf makes a kind of the struct that its keys are decoded into.
func reducerOf[C any](number string, asks bool, fn func(a *app, at place, c C) (reduce.Reducer, error)) reducerKind {
	return reducerKind{number, func(a *app, at place, config any) (reduce.Reducer, error) {
		var c C
		if err := a.decodeKeys(at, config, &c); err != nil {
			return nil, err
		}
		r, err := fn(a, at, c)
		if err != nil {
			e := host.AsError(a.config.wrap(err, at))
			if e.Hint == "" {
				e.Hint = fmt.Sprintf("write: config: {%s: 20}, or config: 20; the keys are: %s", number, strings.Join(jsonNames(&c), ", "))
			}
			return nil, e
		}
		return r, nil
	}, asks}
}

// The keys of the reducers.
type (
	countingKeys struct {
		Target    int              `json:"target"`
		ToolPairs reduce.ToolPairs `json:"tool_pairs"`
	}
	summarizingKeys struct {
		Target     int              `json:"target"`
		Threshold  int              `json:"threshold"`
		Model      string           `json:"model"`
		Prompt     string           `json:"prompt"`
		ToolPairs  reduce.ToolPairs `json:"tool_pairs"`
		InputBytes int              `json:"input_bytes"`
	}
	progressiveKeys struct {
		Target     int              `json:"target"`
		Batch      int              `json:"batch"`
		Model      string           `json:"model"`
		Prompt     string           `json:"prompt"`
		ToolPairs  reduce.ToolPairs `json:"tool_pairs"`
		InputBytes int              `json:"input_bytes"`
	}
	truncationKeys struct {
		Most       int  `json:"most"`
		Goal       int  `json:"goal"`
		Tokens     bool `json:"tokens"`
		DropSystem bool `json:"drop_system"`
	}
	windowKeys struct {
		Groups int `json:"groups"`
	}
	keepKeys struct {
		Keep int `json:"keep"`
	}
	budgetKeys struct {
		Tokens int              `json:"tokens"`
		Steps  []map[string]any `json:"steps"`
	}
)

// reducerKinds are the reducers by name.
func reducerKinds() map[string]reducerKind {
	return map[string]reducerKind{
		"counting": reducerOf("target", false, func(_ *app, _ place, c countingKeys) (reduce.Reducer, error) {
			return reduce.Counting(c.Target, &reduce.CountingOptions{ToolPairs: c.ToolPairs})
		}),
		"summarizing": reducerOf("target", true, (*app).summarizing),
		"progressive": reducerOf("target", true, (*app).progressive),
		"truncation": reducerOf("most", false, func(_ *app, _ place, c truncationKeys) (reduce.Reducer, error) {
			if c.Goal == 0 {
				c.Goal = c.Most
			}
			return reduce.Truncation(c.Most, c.Goal, &reduce.TruncationOptions{Tokens: c.Tokens, DropSystem: c.DropSystem})
		}),
		"sliding_window": reducerOf("groups", false, func(_ *app, _ place, c windowKeys) (reduce.Reducer, error) {
			return reduce.SlidingWindow(c.Groups)
		}),
		"drop_tools": reducerOf("keep", false, func(_ *app, _ place, c keepKeys) (reduce.Reducer, error) {
			return reduce.DropTools(c.Keep)
		}),
		"collapse_tools": reducerOf("keep", false, func(_ *app, _ place, c keepKeys) (reduce.Reducer, error) {
			return reduce.CollapseTools(c.Keep)
		}),
		"budget": reducerOf("tokens", false, (*app).budget),
	}
}

// reducerNames are the reducers as a configuration names them.
func reducerNames() []string {
	names := sortedKeys(reducerKinds())
	for i := range names {
		names[i] = reducePrefix + names[i]
	}
	return names
}

// reducer makes the reducer that is in use at a place.
func (a *app) reducer(at place, use string, config any) (reduce.Reducer, error) {
	name, ok := strings.CutPrefix(use, reducePrefix)
	kind, known := reducerKinds()[name]
	if !ok || !known {
		return nil, a.config.unknown(at.to("use"), "reducer", use, reducerNames())
	}
	switch n := config.(type) {
	case int, int64, uint64, float64:
		config = map[string]any{kind.number: n}
	}
	return kind.make(a, at.to("config"), config)
}

// reducerProcessor returns a reducer as a processor before every model call.
func (a *app) reducerProcessor(at place, use useConfig) (host.Processor, error) {
	r, err := a.reducer(at, use.Use, use.Config)
	if err != nil {
		return nil, err
	}
	return reduce.Processor(strings.TrimPrefix(use.Use, reducePrefix), r), nil
}

// asked returns the model that a reducer asks.
func (a *app) asked(at place, name string) (host.Model, error) {
	m, err := a.model(at.to("model"), name)
	if err == nil && m == nil {
		err = a.config.errorAt(at, "no model is named that summarizes").WithHint("write: config: {model: NAME, ...}, or name a model for all at the top")
	}
	return m, err
}

func (a *app) summarizing(at place, c summarizingKeys) (reduce.Reducer, error) {
	m, err := a.asked(at, c.Model)
	if err != nil {
		return nil, err
	}
	opts := &reduce.SummarizingOptions{Threshold: c.Threshold, Prompt: c.Prompt, ToolPairs: c.ToolPairs, InputBytes: c.InputBytes}
	if a.threads != nil && !a.elsewhere {
		opts.Summaries = a.threads.Summaries()
	}
	return reduce.Summarizing(m, c.Target, opts)
}

// progressive makes a reducer whose jobs have a name of its configuration's own:
// two in one configuration do not do each other's.
func (a *app) progressive(at place, c progressiveKeys) (reduce.Reducer, error) {
	m, err := a.asked(at, c.Model)
	if err != nil {
		return nil, err
	}
	if a.threads == nil || a.elsewhere {
		return nil, a.config.errorAt(at, "progressive summaries are of threads that are kept in --data, or in memory").WithHint("use %ssummarizing", reducePrefix)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, host.Errorf(host.Internal, "name the jobs of a reducer: %w", err)
	}
	sum := sha256.Sum256(raw)
	job := reduce.ProgressiveJob + "/" + hex.EncodeToString(sum[:8])
	p, err := reduce.NewProgressive(m, c.Target, a.threads, renamed{a.queue, job}, a.threads.Summaries(),
		&reduce.ProgressiveOptions{Batch: c.Batch, Prompt: c.Prompt, ToolPairs: c.ToolPairs, InputBytes: c.InputBytes})
	if err != nil {
		return nil, err
	}
	a.queue.Handle(job, p.HandleJob)
	return p, nil
}

// budget makes a ladder: reducers in order, until the conversation is within a
// number of tokens.
func (a *app) budget(at place, c budgetKeys) (reduce.Reducer, error) {
	var steps []reduce.Reducer
	for i, step := range c.Steps {
		at := at.to("steps", i)
		use, _ := step["use"].(string)
		for _, key := range sortedKeys(step) {
			if key != "use" && key != "config" {
				return nil, a.config.errorAt(at.to(key), "unknown key %q", key).WithHint("the keys here are: use, config")
			}
		}
		r, err := a.reducer(at, use, step["config"])
		if err != nil {
			return nil, err
		}
		steps = append(steps, r)
	}
	return reduce.Budget(c.Tokens, steps...)
}

// asksModel reports whether a processor in use is a reducer that asks a model.
func asksModel(use string, config any) bool {
	name, ok := strings.CutPrefix(use, reducePrefix)
	if !ok {
		return false
	}
	if m, isMap := config.(map[string]any); isMap && name == "budget" {
		steps, _ := m["steps"].([]any)
		for _, s := range steps {
			if step, ok := s.(map[string]any); ok {
				if use, _ := step["use"].(string); asksModel(use, step["config"]) {
					return true
				}
			}
		}
	}
	return reducerKinds()[name].asks
}

// decodeKeys reads a value of the configuration into a struct with JSON names.
// A key that the struct does not have, or a value of another shape, is an error
// at its place.
func (a *app) decodeKeys(at place, v, into any) error {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return a.config.errorAt(at, "a map is due here").WithHint("the keys here are: %s", strings.Join(jsonNames(into), ", "))
	}
	have := jsonNames(into)
	for _, key := range sortedKeys(m) {
		if !slices.Contains(have, key) {
			e := a.config.errorAt(at.to(key), "unknown key %q", key)
			if near := nearest(key, have); near != "" {
				return e.WithHint("did you mean %q?", near)
			}
			return e.WithHint("the keys here are: %s", strings.Join(have, ", "))
		}
	}
	for _, key := range sortedKeys(m) {
		raw, err := a.toJSON(at.to(key), map[string]any{key: m[key]})
		if err != nil {
			return err
		}
		if json.Unmarshal(raw, into) != nil {
			return a.config.errorAt(at.to(key), "%s is due here", shape(fieldOf(into, key)))
		}
	}
	return nil
}

func jsonNames(into any) []string {
	var names []string
	for f := range reflect.TypeOf(into).Elem().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	return names
}

func fieldOf(into any, name string) reflect.Type {
	for f := range reflect.TypeOf(into).Elem().Fields() {
		if f.Tag.Get("json") == name {
			return f.Type
		}
	}
	return reflect.TypeFor[any]()
}
