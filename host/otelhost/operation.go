package otelhost

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/instrument"
	"github.com/agenthost/agenthost/host/llm"
)

// The spans and metrics of each kind of operation.

// scoped returns the attributes of a scope that every span has.
func scoped(s *llm.Scope, more ...attribute.KeyValue) []attribute.KeyValue {
	for _, a := range []struct{ key, value string }{{keyTenant, s.Tenant}, {keyRun, s.Run}, {keyConversation, s.Thread}} {
		if a.value != "" {
			more = append(more, attribute.String(a.key, a.value))
		}
	}
	return more
}

// tenantOf returns the tenant for metrics.
func (i *Instrument) tenantOf(s *llm.Scope) string {
	if i.opts.Tenants {
		return s.Tenant
	}
	return ""
}

func seconds(since time.Time) float64 { return time.Since(since).Seconds() }

func (i *Instrument) run(op *instrument.Run) observed {
	attributes := scoped(&op.Scope, attribute.String(keyOperation, spanWorkflow), attribute.String(keyWorkflow, op.Scope.Network))
	if op.Resumes != "" {
		attributes = append(attributes, attribute.String(keyResumes, op.Resumes))
	}
	return observed{name: spanWorkflow + " " + op.Scope.Network, kind: trace.SpanKindInternal, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			done := scoped(&op.Scope, usageAttributes(op.Usage)...)
			done = append(done, attribute.String(keyReason, string(op.FinishReason)), attribute.Int64(keyInstructions, op.Cost.Instructions))
			if op.Replayed {
				done = append(done, attribute.Bool(keyReplayed, true))
			}
			return done, func(ctx context.Context, code string) {
				i.meters.duration.record(ctx, seconds(op.Began()), keyOperation, spanWorkflow, keyWorkflow, op.Scope.Network, keyTenant, i.tenantOf(&op.Scope), keyError, code)
			}
		}}
}

func (i *Instrument) agent(op *instrument.Agent) observed {
	attributes := scoped(&op.Scope, attribute.String(keyOperation, spanAgent), attribute.String(keyAgent, op.Scope.Agent), attribute.String(keyRequestModel, op.Model))
	if op.Description != "" {
		attributes = append(attributes, attribute.String(keyAgentText, op.Description))
	}
	if op.AsTool {
		attributes = append(attributes, attribute.Bool(keyAsTool, true))
	}
	return observed{name: spanAgent + " " + op.Scope.Agent, kind: trace.SpanKindInternal, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			done := append(usageAttributes(op.Usage), attribute.Int(keyRounds, op.Rounds))
			if op.FinishReason != "" {
				done = append(done, attribute.StringSlice(keyFinishReasons, []string{string(op.FinishReason)}))
			}
			return done, func(ctx context.Context, code string) {
				i.meters.duration.record(ctx, seconds(op.Began()), keyOperation, spanAgent, keyAgent, op.Scope.Agent, keyTenant, i.tenantOf(&op.Scope), keyError, code)
			}
		}}
}

func usageAttributes(u host.Usage) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.Int(keyInputTokens, u.InputTokens), attribute.Int(keyOutputTokens, u.OutputTokens)}
	if u.CachedTokens > 0 {
		list = append(list, attribute.Int(keyCachedTokens, u.CachedTokens))
	}
	if u.ReasoningTokens > 0 {
		list = append(list, attribute.Int(keyReasonTokens, u.ReasoningTokens))
	}
	if u.Estimated {
		list = append(list, attribute.Bool(keyEstimated, true))
	}
	return list
}

func (i *Instrument) model(op *instrument.Model) observed {
	attributes := scoped(&op.Scope, attribute.String(keyOperation, spanChat), attribute.String(keyRequestModel, op.Name), attribute.String(keyPurpose, string(op.Purpose)))
	if op.Provider != "" {
		attributes = append(attributes, attribute.String(keyProvider, op.Provider))
	}
	if op.Scope.Agent != "" {
		attributes = append(attributes, attribute.String(keyAgent, op.Scope.Agent))
	}
	attributes = append(attributes, requestAttributes(op.Request)...)
	if i.opts.Content {
		attributes = append(attributes, i.inputContent(op.Request)...)
	}
	return observed{name: spanChat + " " + op.Name, kind: trace.SpanKindClient, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			done := usageAttributes(op.Usage)
			done = append(done, attribute.String(keyResponseModel, op.Answered))
			if op.FirstChunk > 0 {
				done = append(done, attribute.Float64(keyFirstChunk, op.FirstChunk.Seconds()))
			}
			if op.Retries > 0 {
				done = append(done, attribute.Int(keyRetries, op.Retries))
			}
			if op.Fallbacks > 0 {
				done = append(done, attribute.Int(keyFallbacks, op.Fallbacks))
			}
			if op.Price.Currency != "" || op.Price.Amount > 0 {
				done = append(done, attribute.Float64(keyCost, amount(op.Price)), attribute.String(keyCurrency, op.Price.Currency))
			}
			if r := op.Response; r != nil {
				done = append(done, attribute.StringSlice(keyFinishReasons, []string{string(r.FinishReason)}))
				if r.ID != "" {
					done = append(done, attribute.String(keyResponseID, r.ID))
				}
				if i.opts.Content {
					done = append(done, i.outputContent(r))
				}
			}
			return done, func(ctx context.Context, code string) { i.measureModel(ctx, op, code) }
		}}
}

// amount returns an amount of money in its currency.
func amount(m instrument.Money) float64 { return float64(m.Amount) / 1e9 }

func (i *Instrument) measureModel(ctx context.Context, op *instrument.Model, code string) {
	m, tenant := i.meters, i.tenantOf(&op.Scope)
	labels := []string{keyOperation, spanChat, keyProvider, op.Provider, keyRequestModel, op.Name, keyResponseModel, op.Answered, keyTenant, tenant}
	m.duration.record(ctx, seconds(op.Began()), append(labels, keyError, code)...)
	if op.FirstChunk > 0 {
		m.firstChunk.record(ctx, op.FirstChunk.Seconds(), labels...)
	}
	m.tokens.recordTokens(ctx, op.Usage.InputTokens, append(labels, keyTokenType, "input")...)
	m.tokens.recordTokens(ctx, op.Usage.OutputTokens, append(labels, keyTokenType, "output")...)
	if op.Price.Amount > 0 {
		m.cost.record(ctx, amount(op.Price), keyRequestModel, op.Name, keyCurrency, op.Price.Currency, keyPurpose, string(op.Purpose), keyTenant, tenant)
	}
}

// requestAttributes returns the parameters of a request.
func requestAttributes(req *llm.Request) []attribute.KeyValue {
	var list []attribute.KeyValue
	if req.Temperature != nil {
		list = append(list, attribute.Float64(keyTemperature, *req.Temperature))
	}
	if req.MaxOutputTokens > 0 {
		list = append(list, attribute.Int(keyMaxTokens, req.MaxOutputTokens))
	}
	if req.Output != nil {
		list = append(list, attribute.String(keyOutputType, "json"))
	}
	for name, key := range map[string]string{"top_p": keyTopP, "top_k": keyTopK, "frequency_penalty": keyFrequency, "presence_penalty": keyPresence, "seed": keySeed} {
		var n float64
		if raw, ok := req.Parameters[name]; ok && json.Unmarshal(raw, &n) == nil {
			list = append(list, attribute.Float64(key, n))
		}
	}
	return list
}

func (i *Instrument) tool(op *instrument.Tool) observed {
	attributes := scoped(&op.Scope, attribute.String(keyOperation, spanTool), attribute.String(keyTool, op.Name), attribute.String(keyToolType, "function"), attribute.String(keyToolCall, op.Call))
	if op.Scope.Agent != "" {
		attributes = append(attributes, attribute.String(keyAgent, op.Scope.Agent))
	}
	if op.Description != "" {
		attributes = append(attributes, attribute.String(keyToolText, op.Description))
	}
	if op.Provider != "" {
		attributes = append(attributes, attribute.String(keyToolProvider, op.Provider))
	}
	if i.opts.Content {
		attributes = append(attributes, attribute.String(keyToolArguments, i.text(string(op.Arguments))))
	}
	name := other // that the model invented
	if op.Known {
		name = op.Name
	}
	return observed{name: spanTool + " " + name, kind: trace.SpanKindInternal, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			done := []attribute.KeyValue{attribute.Int(keyAttempts, op.Attempts)}
			if op.Interrupted {
				done = append(done, attribute.Bool(keyInterrupted, true))
			}
			if i.opts.Content {
				done = append(done, attribute.String(keyToolResult, i.text(string(op.Result))))
			}
			return done, func(ctx context.Context, code string) {
				i.meters.duration.record(ctx, seconds(op.Began()), keyOperation, spanTool, keyTool, name, keyTenant, i.tenantOf(&op.Scope), keyError, code)
			}
		}}
}

// part returns what the operations have in common that the conventions do not name.
func (i *Instrument) part(op instrument.Operation, s *llm.Scope, span, kind, name string, attributes []attribute.KeyValue, end func() []attribute.KeyValue) observed {
	return observed{name: span + " " + name, kind: trace.SpanKindInternal, attributes: scoped(s, append(attributes, attribute.String(keyName, name))...),
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			return end(), func(ctx context.Context, code string) {
				i.meters.operation.record(ctx, seconds(op.Began()), keyKind, kind, keyName, name, keyTenant, i.tenantOf(s), keyError, code)
			}
		}}
}

func (i *Instrument) processor(op *instrument.Processor) observed {
	return i.part(op, &op.Scope, spanProcessor, "processor", op.Name, []attribute.KeyValue{attribute.String(keyLevel, op.Level)}, func() []attribute.KeyValue {
		done := []attribute.KeyValue{attribute.Int(keyBefore, op.MessagesBefore), attribute.Int(keyAfter, op.MessagesAfter)}
		if op.TokensBefore >= 0 {
			done = append(done, attribute.Int(keyTokensBefore, op.TokensBefore), attribute.Int(keyTokensAfter, op.TokensAfter))
		}
		if op.Skipped != nil {
			done = append(done, attribute.Bool(keySkipped, true), attribute.String(keyError, codeOf(op.Skipped)))
		}
		return done
	})
}

func (i *Instrument) provider(op *instrument.Provider) observed {
	return i.part(op, &op.Scope, spanProvider, "provider", op.Name, []attribute.KeyValue{attribute.Bool(keyObserves, op.Observes)}, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.Int(keyMessages, op.Messages), attribute.Int(keyTools, op.Tools)}
	})
}

func (i *Instrument) router(op *instrument.Router) observed {
	return i.part(op, &op.Scope, spanRouter, "router", op.Name, nil, func() []attribute.KeyValue {
		done := []attribute.KeyValue{attribute.StringSlice(keyNext, op.Next)}
		if op.Delegate != "" {
			done = append(done, attribute.String(keyDelegate, op.Delegate))
		}
		return done
	})
}

// tenantsPlugins stands for the plugins that tenants have for themselves.
const tenantsPlugins = "(tenants)"

// pluginName returns the name of a plugin in metrics.
func (i *Instrument) pluginName(plugin string, owned bool) string {
	if owned && !i.opts.Tenants {
		return tenantsPlugins
	}
	return plugin
}

func (i *Instrument) sandbox(op *instrument.Sandbox) observed {
	attributes := scoped(&op.Scope, attribute.String(keyPlugin, op.Plugin), attribute.String(keyDigest, op.Digest), attribute.String(keyExport, op.Export))
	if op.Version != "" {
		attributes = append(attributes, attribute.String(keyVersion, op.Version))
	}
	return observed{name: spanSandbox + " " + op.Plugin, kind: trace.SpanKindInternal, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			done := []attribute.KeyValue{attribute.Int64(keyInstructions, op.Cost.Instructions), attribute.Int64(keyMemory, op.Cost.PeakMemory), attribute.Float64(keyWait, float64(op.Cost.WaitUS)/1e6)}
			return done, func(ctx context.Context, code string) {
				i.meters.operation.record(ctx, seconds(op.Began()), keyKind, "sandbox", keyName, i.pluginName(op.Plugin, op.Owned), keyTenant, i.tenantOf(&op.Scope), keyError, code)
			}
		}}
}

func (i *Instrument) http(op *instrument.HTTP) observed {
	attributes := scoped(&op.Scope, attribute.String(keyMethod, op.Method), attribute.String(keyServer, op.Host), attribute.String(keyURLScheme, op.Scheme), attribute.String(keyPlugin, op.Plugin), attribute.Int(keyBodySize, op.Body))
	return observed{name: op.Method, kind: trace.SpanKindClient, attributes: attributes,
		end: func() ([]attribute.KeyValue, func(context.Context, string)) {
			var done []attribute.KeyValue
			if op.Status > 0 {
				done = append(done, attribute.Int(keyStatus, op.Status), attribute.Int(keyAnswerSize, op.Received), attribute.Int(keyRedirects, op.Redirects))
			}
			return done, func(ctx context.Context, code string) {
				i.meters.operation.record(ctx, seconds(op.Began()), keyKind, "http", keyName, i.pluginName(op.Plugin, op.Owned), keyTenant, i.tenantOf(&op.Scope), keyError, code)
			}
		}}
}
