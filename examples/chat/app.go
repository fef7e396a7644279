package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/scriptedmodel"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/host/trace"
	"github.com/agenthost/agenthost/plugins/tokenlimiter"
)

// options are what the command line says.
type options struct {
	cache                 string // of compiled plugins; "" is none
	data, postgres, model string
	logger                *slog.Logger
	answers               host.Model // in the place of model; a test's
}

// app is everything that is made once, for all who talk.
type app struct {
	host     *host.Host
	agent    *host.Agent
	store    *store
	traces   *trace.Log // nil without a directory
	scripted bool
	logger   *slog.Logger
	closers  []func() error
}

// newApp makes it. It cleans up after itself if that fails.
func newApp(ctx context.Context, o options) (_ *app, err error) {
	a := &app{logger: o.logger}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.store, err = openStore(ctx, o); err != nil {
		return nil, err
	}
	a.closers = append(a.closers, a.store.close)
	history, err := host.NewHistory(a.store.history, nil)
	if err != nil {
		return nil, err
	}
	model, err := a.makeModel(ctx, o)
	if err != nil {
		return nil, err
	}
	if a.agent, err = a.makeAgent(ctx, o); err != nil {
		return nil, err
	}
	counter, err := tokens.New(nil)
	if err != nil {
		return nil, err
	}
	if o.data != "" && o.postgres == "" {
		if a.traces, err = trace.Open(filepath.Join(o.data, "traces"), &trace.Options{Logger: o.logger}); err != nil {
			return nil, err
		}
	}
	a.host, err = host.New(&host.Options{Model: model, History: history, Tokens: counter, Logger: o.logger})
	return a, err
}

// Close closes everything that was opened, last first. It may be called twice.
func (a *app) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// makeModel connects to a model, or to a script that plays one.
func (a *app) makeModel(ctx context.Context, o options) (host.Model, error) {
	if o.answers != nil {
		return o.answers, nil
	}
	name, opts := o.model, &openaimodel.Options{Server: modelhttp.Options{BaseURL: os.Getenv("OPENAI_BASE_URL"), APIKey: os.Getenv("OPENAI_API_KEY"), Logger: o.logger}}
	if name == "" {
		script, err := scriptedmodel.Start(context.WithoutCancel(ctx), &scriptedmodel.Options{Rules: script()})
		if err != nil {
			return nil, err
		}
		a.closers = append(a.closers, script.Close)
		name, opts, a.scripted = scriptedmodel.DefaultName, &openaimodel.Options{Server: modelhttp.Options{BaseURL: script.BaseURL()}}, true
	}
	model, err := openaimodel.New(name, opts)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { model.CloseIdleConnections(); return nil })
	return model, nil
}

// script is the answer without a model, slow enough to be seen.
func script() []scriptedmodel.Rule {
	pace := scriptedmodel.Duration(40 * time.Millisecond)
	return []scriptedmodel.Rule{
		{Match: scriptedmodel.Match{After: "roll_dice"}, Reply: scriptedmodel.Reply{Text: "It shows ${result}.", ChunkDelay: pace}},
		{Match: scriptedmodel.Match{User: `(?i)\b(?:roll|throw|dice?)\b`}, Reply: scriptedmodel.Reply{Calls: []scriptedmodel.ReplyCall{{Name: "roll_dice", Arguments: []byte(`{"sides":6}`)}}}},
		{Reply: scriptedmodel.Reply{Text: "I am a script, not a model. I can roll a dice; with -model NAME somebody cleverer answers.", ChunkDelay: pace}},
	}
}

// makeAgent makes the agent: it has a tool in Go, and a processor in the sandbox
// that keeps conversations within the model's window.
func (a *app) makeAgent(ctx context.Context, o options) (*host.Agent, error) {
	sandbox, err := plugin.NewRuntime(ctx, &plugin.Options{CacheDir: o.cache, Logger: o.logger})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() error { return sandbox.Close(context.WithoutCancel(ctx)) })
	limiter, err := sandbox.Load(ctx, "tokenlimiter", tokenlimiter.Wasm, nil)
	if err != nil {
		return nil, err
	}
	keepShort, err := limiter.Processor("", &plugin.PartOptions{Config: []byte(`{"limit":8000}`)})
	if err != nil {
		return nil, err
	}
	return host.NewAgent("assistant", &host.AgentOptions{
		Instructions: "You are a friendly assistant. Answer in a few sentences, as plain text.",
		Tools:        []*host.Tool{dice()},
		Processors:   []host.Processor{keepShort},
	})
}

type diceArgs struct {
	Sides int `json:"sides" jsonschema:"how many sides the dice has, such as 6"`
}

func dice() *host.Tool {
	return host.NewTool("roll_dice", "Rolls a dice.", func(_ context.Context, _ *host.Call, in diceArgs) (int, error) {
		if in.Sides < 2 || in.Sides > 1000 {
			return 0, host.Errorf(host.InvalidArgument, "A dice has from 2 to 1000 sides.") // the model reads this
		}
		return 1 + rand.IntN(in.Sides), nil
	}, nil)
}
