package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fallbackmodel"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/internal/demomodel"
	"github.com/agenthost/agenthost/internal/termtext"
)

// modelSet is the models of a configuration, connected.
type modelSet struct {
	config  *configfile.Config
	getenv  func(string) string
	logger  *slog.Logger
	closers *closers

	byName       map[string]host.Model // "" is the default one
	scriptedUsed bool                  // a stand-in answers, not a model
}

// open connects to the configured models. override replaces them all with one: a
// configured model, or a server's model with that name.
func (s *modelSet) open(ctx context.Context, override string) error {
	if override != "" {
		return s.override(ctx, override)
	}
	for _, name := range slices.Sorted(maps.Keys(s.config.Models)) {
		m, err := s.make(ctx, name, s.config.Models[name])
		if err != nil {
			return err
		}
		s.byName[name] = m
	}
	if err := s.addFallbacks(); err != nil {
		return err
	}
	return s.chooseDefault(ctx)
}

// addFallbacks gives models their fallbacks, asked when they fail. A fallback's own
// fallbacks are not asked: the list is complete.
func (s *modelSet) addFallbacks() error {
	alone := maps.Clone(s.byName)
	for _, name := range slices.Sorted(maps.Keys(s.config.Models)) {
		list := []host.Model{alone[name]}
		for i, other := range s.config.Models[name].Fallback {
			at := configfile.Keys("models", name, "fallback", i)
			switch {
			case other == name:
				return s.config.ErrorAt(at, "model %q is to fall back on itself", name)
			case alone[other] == nil:
				return s.config.Unknown(at, "model", other, slices.Sorted(maps.Keys(s.config.Models)))
			}
			list = append(list, alone[other])
		}
		if len(list) == 1 {
			continue
		}
		m, err := fallbackmodel.New(list, nil)
		if err != nil {
			return s.config.Wrap(err, configfile.Keys("models", name, "fallback"))
		}
		s.byName[name] = m
	}
	return nil
}

func (s *modelSet) override(ctx context.Context, name string) error {
	mc, configured := s.config.Models[name]
	if !configured {
		mc = s.named(name)
	}
	m, err := s.connect(ctx, name, mc)
	switch {
	case err != nil && configured:
		return s.config.Wrap(err, configfile.Keys("models", name))
	case err != nil:
		return s.flagError(name, err)
	}
	for other := range s.config.Models {
		s.byName[other] = m
	}
	s.byName[""] = m
	return nil
}

// flagError names --model in the error of a model from the command line, and suggests
// a configured one.
func (s *modelSet) flagError(name string, err error) error {
	e := *fault.AsError(err)
	e.Message, e.Err = "--model: "+e.Message, err
	if near := termtext.Nearest(name, slices.Sorted(maps.Keys(s.config.Models))); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q, which %s has? Otherwise %s", near, s.config.Name, e.Hint)
	}
	return &e
}

// chooseDefault finds the model of agents that name none: the configuration's default,
// the only model, or, without any models, the stand-in.
func (s *modelSet) chooseDefault(ctx context.Context) (err error) {
	name := s.config.Model
	switch {
	case name != "":
		s.byName[""], err = s.find(configfile.Keys("model"), name)
	case len(s.config.Models) == 0:
		s.byName[""], err = s.make(ctx, "", configfile.Model{Provider: configfile.ScriptedProvider})
	case len(s.config.Models) == 1:
		s.byName[""] = s.byName[slices.Sorted(maps.Keys(s.config.Models))[0]]
	}
	return err
}

func (s *modelSet) make(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	m, err := s.connect(ctx, name, mc)
	return m, s.config.Wrap(err, configfile.Keys("models", name))
}

func (s *modelSet) connect(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	if mc.Provider == configfile.ScriptedProvider {
		return s.scripted(ctx, name, mc)
	}
	return s.remote(name, mc)
}

// scripted starts a stand-in and connects to it over the real protocol.
func (s *modelSet) scripted(ctx context.Context, name string, mc configfile.Model) (host.Model, error) {
	rules, err := s.readRules(name, mc.Rules)
	if err != nil {
		return nil, err
	}
	server, err := s.startScripted(ctx, rules)
	if err != nil {
		return nil, err
	}
	s.scriptedUsed = true
	return s.dialOpenAI(scriptedmodel.DefaultName, &openaimodel.Options{Server: modelhttp.Options{BaseURL: server.BaseURL(), Timeout: time.Duration(mc.Timeout)}})
}

// startScripted starts a stand-in. It outlives the run's context: an interrupted run can still
// finish its requests.
func (s *modelSet) startScripted(ctx context.Context, rules []scriptedmodel.Rule) (*scriptedmodel.Server, error) {
	server, err := scriptedmodel.Start(context.WithoutCancel(ctx), &scriptedmodel.Options{Rules: rules, Otherwise: demomodel.Answer})
	if err == nil {
		s.closers.add(server.Close)
	}
	return server, err
}

func (s *modelSet) readRules(name, file string) ([]scriptedmodel.Rule, error) {
	if file == "" {
		return nil, nil
	}
	var open fs.FS = configfile.OSFiles{}
	if s.config.Fsys != nil {
		open = s.config.Fsys
	}
	file = s.config.FilePath(file)
	text, err := fs.ReadFile(open, file)
	if err != nil {
		e := s.config.ErrorAt(configfile.Keys("models", name, "rules"), "read rules: %w", err)
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

func (s *modelSet) dialOpenAI(name string, opts *openaimodel.Options) (host.Model, error) {
	m, err := openaimodel.New(name, opts)
	if err != nil {
		return nil, err
	}
	s.closeLater(m)
	return m, nil
}

// find returns a configured model; "" is the default one, which may be nil.
func (s *modelSet) find(at configfile.KeyPath, name string) (host.Model, error) {
	if m := s.byName[name]; m != nil || name == "" {
		return m, nil
	}
	return nil, s.config.Unknown(at, "model", name, slices.Sorted(maps.Keys(s.config.Models)))
}

// upstream is a model on a remote server. It marks the timeouts of its requests with
// [ErrSlow], so that they differ from the deadlines of runs.
type upstream struct{ host.Model }

var _ host.Model = upstream{}

// Unwrap returns the model that the requests go to.
func (u upstream) Unwrap() host.Model { return u.Model }

// ErrSlow is in the chain of an error of a model that did not answer in time.
var ErrSlow = errors.New("model is slow")

// Generate implements host.Model.
func (u upstream) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
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
