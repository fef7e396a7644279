package project

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/queue"
	"github.com/agenthost/agenthost/host/reduce"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/termtext"
)

// reducerSet makes the reducers of a configuration.
type reducerSet struct {
	config  *configfile.Config
	models  *modelSet
	threads *threads.Store // nil if there are none, or a database keeps the conversations
	queue   *queue.Queue   // nil if threads is
}

// reducerKind is a reducer that a configuration can name. A configuration that is a
// bare number sets the key named in number.
type reducerKind struct {
	number string
	make   func(s *reducerSet, at configfile.KeyPath, config any) (reduce.Reducer, error)
	asks   bool // whether it asks a model
}

// reducerOf makes a kind of the struct that its keys are decoded into.
func reducerOf[C any](number string, asks bool, fn func(s *reducerSet, at configfile.KeyPath, c C) (reduce.Reducer, error)) reducerKind {
	return reducerKind{number, func(s *reducerSet, at configfile.KeyPath, config any) (reduce.Reducer, error) {
		var c C
		if err := decodeKeys(s.config, at, config, &c); err != nil {
			return nil, err
		}
		r, err := fn(s, at, c)
		if err != nil {
			e := fault.AsError(s.config.Wrap(err, at))
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
		"counting": reducerOf("target", false, func(_ *reducerSet, _ configfile.KeyPath, c countingKeys) (reduce.Reducer, error) {
			return reduce.Counting(c.Target, &reduce.CountingOptions{ToolPairs: c.ToolPairs})
		}),
		"summarizing": reducerOf("target", true, (*reducerSet).summarizing),
		"progressive": reducerOf("target", true, (*reducerSet).progressive),
		"truncation": reducerOf("most", false, func(_ *reducerSet, _ configfile.KeyPath, c truncationKeys) (reduce.Reducer, error) {
			if c.Goal == 0 {
				c.Goal = c.Most
			}
			return reduce.Truncation(c.Most, c.Goal, &reduce.TruncationOptions{Tokens: c.Tokens, DropSystem: c.DropSystem})
		}),
		"sliding_window": reducerOf("groups", false, func(_ *reducerSet, _ configfile.KeyPath, c windowKeys) (reduce.Reducer, error) {
			return reduce.SlidingWindow(c.Groups)
		}),
		"drop_tools": reducerOf("keep", false, func(_ *reducerSet, _ configfile.KeyPath, c keepKeys) (reduce.Reducer, error) {
			return reduce.DropTools(c.Keep)
		}),
		"collapse_tools": reducerOf("keep", false, func(_ *reducerSet, _ configfile.KeyPath, c keepKeys) (reduce.Reducer, error) {
			return reduce.CollapseTools(c.Keep)
		}),
		"budget": reducerOf("tokens", false, (*reducerSet).budget),
	}
}

// make makes the reducer used at a place.
func (s *reducerSet) make(at configfile.KeyPath, use string, config any) (reduce.Reducer, error) {
	name, ok := strings.CutPrefix(use, configfile.ReducePrefix)
	kind, known := reducerKinds()[name]
	if !ok || !known {
		return nil, s.config.Unknown(at.To("use"), "reducer", use, configfile.ReducerNames())
	}
	switch n := config.(type) {
	case int, int64, uint64, float64:
		config = map[string]any{kind.number: n}
	}
	return kind.make(s, at.To("config"), config)
}

// processor returns a reducer as a processor before every model call.
func (s *reducerSet) processor(at configfile.KeyPath, use configfile.Use) (host.Processor, error) {
	r, err := s.make(at, use.Use, use.Config)
	if err != nil {
		return nil, err
	}
	return reduce.Processor(strings.TrimPrefix(use.Use, configfile.ReducePrefix), r), nil
}

// model returns the model that a reducer asks.
func (s *reducerSet) model(at configfile.KeyPath, name string) (host.Model, error) {
	m, err := s.models.find(at.To("model"), name)
	if err == nil && m == nil {
		err = s.config.ErrorAt(at, "no model is named that summarizes").WithHint("write: config: {model: NAME, ...}, or name a model for all at the top")
	}
	return m, err
}

func (s *reducerSet) summarizing(at configfile.KeyPath, c summarizingKeys) (reduce.Reducer, error) {
	m, err := s.model(at, c.Model)
	if err != nil {
		return nil, err
	}
	opts := &reduce.SummarizingOptions{Threshold: c.Threshold, Prompt: c.Prompt, ToolPairs: c.ToolPairs, InputBytes: c.InputBytes}
	if s.threads != nil {
		opts.Summaries = s.threads.Summaries()
	}
	return reduce.Summarizing(m, c.Target, opts)
}

// progressive makes a reducer whose jobs are named after its configuration: two
// reducers in one project do not run each other's jobs.
func (s *reducerSet) progressive(at configfile.KeyPath, c progressiveKeys) (reduce.Reducer, error) {
	m, err := s.model(at, c.Model)
	if err != nil {
		return nil, err
	}
	if s.threads == nil {
		return nil, s.config.ErrorAt(at, "progressive summaries are of threads that are kept in --data, or in memory").WithHint("use %ssummarizing", configfile.ReducePrefix)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, host.Errorf(host.Internal, "name the jobs of a reducer: %w", err)
	}
	sum := sha256.Sum256(raw)
	job := reduce.ProgressiveJob + "/" + hex.EncodeToString(sum[:8])
	p, err := reduce.NewProgressive(m, c.Target, s.threads, renamed{s.queue, job}, s.threads.Summaries(),
		&reduce.ProgressiveOptions{Batch: c.Batch, Prompt: c.Prompt, ToolPairs: c.ToolPairs, InputBytes: c.InputBytes})
	if err != nil {
		return nil, err
	}
	s.queue.Handle(job, p.HandleJob)
	return p, nil
}

// budget makes a ladder: reducers in order, until the conversation is within a
// number of tokens.
func (s *reducerSet) budget(at configfile.KeyPath, c budgetKeys) (reduce.Reducer, error) {
	var steps []reduce.Reducer
	for i, step := range c.Steps {
		at := at.To("steps", i)
		use, _ := step["use"].(string)
		for _, key := range slices.Sorted(maps.Keys(step)) {
			if key != "use" && key != "config" {
				return nil, s.config.ErrorAt(at.To(key), "unknown key %q", key).WithHint("the keys here are: use, config")
			}
		}
		r, err := s.make(at, use, step["config"])
		if err != nil {
			return nil, err
		}
		steps = append(steps, r)
	}
	return reduce.Budget(c.Tokens, steps...)
}

// asksModel reports whether a processor in use is a reducer that asks a model.
func asksModel(use string, config any) bool {
	name, ok := strings.CutPrefix(use, configfile.ReducePrefix)
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
func decodeKeys(c *configfile.Config, at configfile.KeyPath, v, into any) error {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return c.ErrorAt(at, "a map is due here").WithHint("the keys here are: %s", strings.Join(jsonNames(into), ", "))
	}
	have := jsonNames(into)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(have, key) {
			e := c.ErrorAt(at.To(key), "unknown key %q", key)
			if near := termtext.Nearest(key, have); near != "" {
				return e.WithHint("did you mean %q?", near)
			}
			return e.WithHint("the keys here are: %s", strings.Join(have, ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		raw, err := toJSON(c, at.To(key), map[string]any{key: m[key]})
		if err != nil {
			return err
		}
		if json.Unmarshal(raw, into) != nil {
			return c.ErrorAt(at.To(key), "%s is due here", configfile.Shape(fieldOf(into, key)))
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
