package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/agenthost/agenthost/host"
)

// Backend is a store of memories for tools and providers. [Store] is one.
type Backend interface {
	// Apply makes all changes or none: see [Store.Apply].
	Apply(ctx context.Context, scope Scope, changes ...Change) ([]*Memory, error)

	// Search returns the memories that fit a query, the best first: see
	// [Store.Search].
	Search(ctx context.Context, scope Scope, query string, opts *SearchOptions) ([]Hit, error)
}

// ScopeFunc returns the scope of memories that a run may see, from the caller's
// scope and the run's state. It must fail rather than omit a name that it
// needs.
type ScopeFunc func(scope host.Scope, state *host.State) (Scope, error)

// UserAt returns the scope of the user whose name is at a JSON Pointer of the
// run's state, such as /user, in the run's tenant. Without a name there it fails
// with code invalid_argument. The caller that starts a run sets its state, and
// the run's tools may change it: offer no tool that writes there.
func UserAt(pointer string) ScopeFunc {
	return func(scope host.Scope, state *host.State) (Scope, error) {
		var user string
		_, err := state.Get(pointer, &user)
		if err != nil || user == "" {
			return Scope{}, host.Errorf(host.InvalidArgument, "the run's state has no user's name at %s, so no memories can be used", pointer)
		}
		return Scope{Tenant: scope.Tenant, User: user}, nil
	}
}

// Tools are the tools by which an agent remembers, after the patterns of
// AgentKit's documentation.
type Tools struct {
	backend Backend
	scope   ScopeFunc
}

// NewTools returns the tools over a backend. A write is durable when its tool has
// answered, in the store or, over a [Queued], in the queue; a repeated call
// writes nothing twice.
func NewTools(backend Backend, scope ScopeFunc) *Tools { return &Tools{backend, scope} }

// Granular returns create_memories, recall_memories, update_memories and
// delete_memories.
func (t *Tools) Granular() []*host.Tool {
	return []*host.Tool{t.Create(), t.Recall(), t.Update(), t.Delete()}
}

// Consolidated returns recall_memories and manage_memories, which makes all of
// its changes or none.
func (t *Tools) Consolidated() []*host.Tool { return []*host.Tool{t.Recall(), t.Manage()} }

// Statement is a memory as a model sees it.
type Statement struct {
	ID        string `json:"id"`
	Statement string `json:"statement"`
}

type (
	created struct {
		Statements []string `json:"statements" jsonschema:"what to remember, a sentence each that stands by itself"`
	}
	recalled struct {
		Queries []string `json:"queries" jsonschema:"what to look for"`
	}
	updated struct {
		Updates []Statement `json:"updates" jsonschema:"the ids of memories and what they are to say"`
	}
	deletion struct {
		ID string `json:"id"`
	}
	deleted struct {
		Deletions []deletion `json:"deletions" jsonschema:"the ids of memories to forget"`
	}
	managed struct {
		Creations []string    `json:"creations,omitempty" jsonschema:"what to remember, a sentence each that stands by itself"`
		Updates   []Statement `json:"updates,omitempty" jsonschema:"the ids of memories and what they are to say"`
		Deletions []deletion  `json:"deletions,omitempty" jsonschema:"the ids of memories to forget"`
	}
)

// Create returns the tool create_memories.
func (t *Tools) Create() *host.Tool {
	return host.NewTool("create_memories", "Remembers statements for later conversations.",
		func(ctx context.Context, call *host.Call, in created) ([]Statement, error) {
			return t.apply(ctx, call, additions(call, in.Statements))
		}, &host.ToolOptions{Idempotent: true})
}

// Recall returns the tool recall_memories. It answers with the memories that its
// queries find, each once: those of the first query first, each query's best
// first.
func (t *Tools) Recall() *host.Tool {
	return host.NewTool("recall_memories", "Looks for what was remembered in earlier conversations.",
		func(ctx context.Context, call *host.Call, in recalled) ([]Statement, error) {
			if len(in.Queries) > MaxChanges {
				return nil, host.Errorf(host.InvalidArgument, "%d queries, more than %d", len(in.Queries), MaxChanges)
			}
			scope, err := t.scope(call.Scope, call.State)
			if err != nil {
				return nil, err
			}
			out, found := []Statement{}, map[string]bool{}
			for _, q := range in.Queries {
				hits, err := t.backend.Search(ctx, scope, q, nil)
				if err != nil {
					return nil, err
				}
				for _, h := range hits {
					if !found[h.ID] {
						found[h.ID] = true
						out = append(out, Statement{h.ID, h.Text})
					}
				}
			}
			return out, nil
		}, &host.ToolOptions{ReadOnly: true})
}

// Update returns the tool update_memories.
func (t *Tools) Update() *host.Tool {
	return host.NewTool("update_memories", "Changes what memories say. Look for their ids with recall_memories.",
		func(ctx context.Context, call *host.Call, in updated) ([]Statement, error) {
			changes, err := updates(in.Updates)
			if err != nil {
				return nil, err
			}
			return t.apply(ctx, call, changes)
		}, &host.ToolOptions{Idempotent: true})
}

// Delete returns the tool delete_memories.
func (t *Tools) Delete() *host.Tool {
	return host.NewTool("delete_memories", "Forgets memories. Look for their ids with recall_memories.",
		func(ctx context.Context, call *host.Call, in deleted) ([]Statement, error) {
			return t.apply(ctx, call, deletions(in.Deletions))
		}, nil)
}

// Manage returns the tool manage_memories.
func (t *Tools) Manage() *host.Tool {
	return host.NewTool("manage_memories", "Remembers, changes and forgets: all of it or, if anything is wrong, nothing. Look for ids with recall_memories.",
		func(ctx context.Context, call *host.Call, in managed) ([]Statement, error) {
			changes, err := updates(in.Updates)
			if err != nil {
				return nil, err
			}
			return t.apply(ctx, call, slices.Concat(deletions(in.Deletions), changes, additions(call, in.Creations)))
		}, nil)
}

func (t *Tools) apply(ctx context.Context, call *host.Call, changes []Change) ([]Statement, error) {
	scope, err := t.scope(call.Scope, call.State)
	if err != nil {
		return nil, err
	}
	out := []Statement{}
	if len(changes) == 0 {
		return out, nil
	}
	memories, err := t.backend.Apply(ctx, scope, changes...)
	for _, m := range memories {
		out = append(out, Statement{m.ID, m.Text})
	}
	return out, err
}

// additions have ids that are the same when the call is tried again.
func additions(call *host.Call, statements []string) (changes []Change) {
	for i, s := range statements {
		key := call.IdempotencyKey
		if key == "" {
			key = call.ID
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", call.Scope.Run, key, i))
		changes = append(changes, Change{Kind: Add, ID: hex.EncodeToString(sum[:16]), Text: s})
	}
	return changes
}

// updates refuses updates without a text, which would keep the old one: no
// model means that.
func updates(list []Statement) (changes []Change, err error) {
	for _, u := range list {
		if u.Statement == "" {
			return nil, host.Errorf(host.InvalidArgument, "memory %q is to say nothing", u.ID).WithHint("delete it")
		}
		changes = append(changes, Change{Kind: Update, ID: u.ID, Text: u.Statement})
	}
	return changes, nil
}

func deletions(list []deletion) (changes []Change) {
	for _, d := range list {
		changes = append(changes, Change{Kind: Delete, ID: d.ID})
	}
	return changes
}
