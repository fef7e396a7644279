package host

import (
	"cmp"
	"context"
)

// With returns the tool under other options, for a tool made elsewhere, such as a
// plugin's. An option that is set replaces the tool's own; ReadOnly and Idempotent
// can be added and not taken away, and Approve is asked after the tool's own rule.
// A live tool has the options in each of its versions. Code invalid_argument for
// retries out of bounds, and for a tool that [NewTool] could not make.
func (t *Tool) With(opts *ToolOptions) (*Tool, error) {
	if t.mistake != nil {
		return nil, t.mistake
	}
	if opts == nil {
		return t, nil
	}
	if err := opts.check(t.Name); err != nil {
		return nil, err
	}
	own := t.under(*opts)
	if now := t.live; now != nil {
		own.live = func(ctx context.Context) *Tool {
			tool := now(ctx)
			if tool == nil {
				return nil
			}
			return tool.under(*opts)
		}
	}
	return own, nil
}

// of returns the tool with the name of the context provider that adds it.
func (t *Tool) of(provider string) *Tool {
	if t == nil {
		return nil
	}
	own := *t
	own.provider = provider
	if now := t.live; now != nil {
		own.live = func(ctx context.Context) *Tool {
			return now(ctx).of(provider)
		}
	}
	return &own
}

func (t *Tool) under(opts ToolOptions) *Tool {
	own := *t
	own.ReadOnly = t.ReadOnly || opts.ReadOnly
	own.Idempotent = t.Idempotent || opts.Idempotent
	own.Timeout, own.Retries = cmp.Or(opts.Timeout, t.Timeout), cmp.Or(opts.Retries, t.Retries)
	own.ways.foundBy = cmp.Or(opts.FoundBy, t.ways.foundBy)
	if opts.Terms != nil {
		own.terms = opts.Terms
	}
	own.approve = bothApprove(t.approve, opts.Approve)
	return &own
}

// bothApprove returns the rule that asks first and then second; either may be
// nil.
func bothApprove(first, second ApprovalRule) ApprovalRule {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, call *Call) (string, error) {
		if reason, err := first(ctx, call); reason != "" || err != nil {
			return reason, err
		}
		return second(ctx, call)
	}
}

// check refuses options out of their bounds.
func (o *ToolOptions) check(tool string) error {
	if o.Retries < 0 || o.Retries > MaxToolRetries {
		return Errorf(InvalidArgument, "retries of tool %q are %d, not 0 to %d", tool, o.Retries, MaxToolRetries)
	}
	if o.Timeout < 0 {
		return Errorf(InvalidArgument, "timeout of tool %q is %s", tool, o.Timeout).WithHint("leave it out for the host's limit")
	}
	return nil
}
