package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fallbackmodel"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/termtext"
)

// makeModels connects to the configured models. override replaces them all with one: a
// configured model, or a server's model with that name.
func (a *Project) makeModels(ctx context.Context, override string) error {
	if override != "" {
		return a.makeOverride(ctx, override)
	}
	for _, name := range slices.Sorted(maps.Keys(a.config.Models)) {
		m, err := a.makeModel(ctx, name, a.config.Models[name])
		if err != nil {
			return err
		}
		a.models[name] = m
	}
	if err := a.addFallbacks(); err != nil {
		return err
	}
	return a.chooseDefault(ctx)
}

// addFallbacks gives models their fallbacks, asked when they fail. A fallback's own
// fallbacks are not asked: the list is complete.
func (a *Project) addFallbacks() error {
	alone := maps.Clone(a.models)
	for _, name := range slices.Sorted(maps.Keys(a.config.Models)) {
		list := []host.Model{alone[name]}
		for i, other := range a.config.Models[name].Fallback {
			at := configfile.Keys("models", name, "fallback", i)
			switch {
			case other == name:
				return a.config.ErrorAt(at, "model %q is to fall back on itself", name)
			case alone[other] == nil:
				return a.config.Unknown(at, "model", other, slices.Sorted(maps.Keys(a.config.Models)))
			}
			list = append(list, alone[other])
		}
		if len(list) == 1 {
			continue
		}
		m, err := fallbackmodel.New(list, nil)
		if err != nil {
			return a.config.Wrap(err, configfile.Keys("models", name, "fallback"))
		}
		a.models[name] = m
	}
	return nil
}

func (a *Project) makeOverride(ctx context.Context, name string) error {
	mc, configured := a.config.Models[name]
	if !configured {
		mc = a.namedModel(name)
	}
	m, err := a.newModel(ctx, name, mc)
	switch {
	case err != nil && configured:
		return a.config.Wrap(err, configfile.Keys("models", name))
	case err != nil:
		return a.flagError(name, err)
	}
	for other := range a.config.Models {
		a.models[other] = m
	}
	a.models[""] = m
	return nil
}

// flagError names --model in the error of a model from the command line, and suggests
// a configured one.
func (a *Project) flagError(name string, err error) error {
	e := *host.AsError(err)
	e.Message, e.Err = "--model: "+e.Message, err
	if near := termtext.Nearest(name, slices.Sorted(maps.Keys(a.config.Models))); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q, which %s has? Otherwise %s", near, a.config.Name, e.Hint)
	}
	return &e
}

// chooseDefault finds the model of agents that name none: the configuration's default,
// the only model, or, without any models, the stand-in.
func (a *Project) chooseDefault(ctx context.Context) (err error) {
	name := a.config.Model
	switch {
	case name != "":
		a.models[""], err = a.model(configfile.Keys("model"), name)
	case len(a.config.Models) == 0:
		a.models[""], err = a.makeModel(ctx, "", configfile.Model{Provider: configfile.ScriptedProvider})
	case len(a.config.Models) == 1:
		a.models[""] = a.models[slices.Sorted(maps.Keys(a.config.Models))[0]]
	}
	return err
}

func (a *Project) makeModel(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	m, err := a.newModel(ctx, name, mc)
	return m, a.config.Wrap(err, configfile.Keys("models", name))
}

func (a *Project) newModel(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	if mc.Provider == configfile.ScriptedProvider {
		return a.scriptedModel(ctx, name, mc)
	}
	return a.remoteModel(name, mc)
}

// scriptedModel starts a stand-in and connects to it over the real protocol.
func (a *Project) scriptedModel(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	rules, err := a.readRules(name, mc.Rules)
	if err != nil {
		return nil, err
	}
	// The server outlives the run's context: an interrupted run can still finish its
	// requests.
	server, err := scriptedmodel.Start(context.WithoutCancel(ctx), &scriptedmodel.Options{Rules: rules})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, server.Close)
	a.scripted = true
	return a.connect(scriptedmodel.DefaultName, &openaimodel.Options{Server: modelhttp.Options{BaseURL: server.BaseURL(), Timeout: time.Duration(mc.Timeout)}})
}

func (a *Project) readRules(name, file string) ([]scriptedmodel.Rule, error) {
	if file == "" {
		return nil, nil
	}
	var open fs.FS = configfile.OSFiles{}
	if a.config.Fsys != nil {
		open = a.config.Fsys
	}
	file = a.config.FilePath(file)
	text, err := fs.ReadFile(open, file)
	if err != nil {
		e := a.config.ErrorAt(configfile.Keys("models", name, "rules"), "read rules: %w", err)
		return nil, e.WithHint("a path is relative to the configuration's directory")
	}
	raw, err := configfile.ToJSON(file, text)
	if err != nil {
		return nil, err
	}
	rules, err := scriptedmodel.ReadRules(raw)
	if err != nil {
		return nil, host.Errorf(host.CodeOf(err), "%s: %w", file, err)
	}
	return rules, nil
}

func (a *Project) connect(name string, opts *openaimodel.Options) (host.Model, error) {
	m, err := openaimodel.New(name, opts)
	if err != nil {
		return nil, err
	}
	a.closeLater(m)
	return m, nil
}

// model returns a configured model; "" is the default one, which may be nil.
func (a *Project) model(at configfile.KeyPath, name string) (host.Model, error) {
	if m := a.models[name]; m != nil || name == "" {
		return m, nil
	}
	return nil, a.config.Unknown(at, "model", name, slices.Sorted(maps.Keys(a.config.Models)))
}

// upstream is a model on a remote server. It marks the timeouts of its requests with
// [ErrSlow], so that they differ from the deadlines of runs.
type upstream struct{ host.Model }

var _ host.Model = upstream{}

// ErrSlow is in the chain of an error of a model that did not answer in time.
var ErrSlow = errors.New("model is slow")

// Generate implements host.Model.
func (u upstream) Generate(ctx context.Context, req *host.ModelRequest) iter.Seq2[host.ModelChunk, error] {
	return func(yield func(host.ModelChunk, error) bool) {
		for chunk, err := range u.Model.Generate(ctx, req) {
			if err != nil && ctx.Err() == nil && host.CodeOf(err) == host.DeadlineExceeded {
				err = slowError{err}
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

type slowError struct{ error }

// Unwrap returns the model's error and ErrSlow.
func (e slowError) Unwrap() []error { return []error{e.error, ErrSlow} }
