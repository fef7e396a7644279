package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/keys"
)

// The outcomes of entries in the audit log, beside the codes of errors.
const (
	outcomeAllowed = "allowed" // written before the change
	outcomeDenied  = "denied"
	outcomeDone    = "done" // written after a change that made the object
)

// maxDenials bounds the entries of changes that were denied to one caller in a minute, and
// maxDeniedCallers the callers that are counted: those beyond it are not written.
const (
	maxDenials       = 10
	maxDeniedCallers = 1000
	denialWindow     = time.Minute
	auditTimeout     = 10 * time.Second // of an entry after the change
)

// changeAudit writes the change that a call makes to the audit log.
type changeAudit struct {
	call       *call
	entry      *audit.Entry // of the change, once it is in the log
	madeObject string       // by the change
}

// record writes the change before it is made: no change is without an entry, and an entry
// that cannot be written is the answer to the request. The object is that of the path.
func (a *changeAudit) record() error { return a.recordOf(a.call.tenant(), a.object()) }

// recordOf is record for an object that is not in the path.
func (a *changeAudit) recordOf(tenant, object string) error {
	return a.recordAs(a.call.route.audit, tenant, object)
}

// answerAction is the action of an answer to a run's questions.
const answerAction = "run.answer"

// recordAnswer is record for a route that answers the questions of a run beside what it does
// for every request.
func (a *changeAudit) recordAnswer(run string) error {
	return a.recordAs(answerAction, a.call.principal.Tenant, objectOf("run", run))
}

func (a *changeAudit) recordAs(action, tenant, object string) error {
	log := a.call.api.options.Audit
	if log == nil || action == "" || a.entry != nil {
		return nil
	}
	a.entry = a.entryOf(tenant, object, outcomeAllowed)
	a.entry.Action = action
	if _, err := log.Append(a.call.ctx, a.entry); err != nil {
		a.entry = nil
		return host.Errorf(host.CodeOf(err), "write the change to the audit log: %w", err)
	}
	return nil
}

// made names the object that the change has made, for its entry.
func (a *changeAudit) made(kind, id string) { a.madeObject = objectOf(kind, id) }

// end writes how a change that record has written ended, if that says more than the first
// entry: it failed, or it has made an object. A change without a first entry is written
// now, and a change that was denied, of each caller a few in a minute.
func (a *changeAudit) end(err error) {
	c := a.call
	if c.api.options.Audit == nil || c.route.audit == "" && a.entry == nil || c.principal.Tenant == "" && !c.principal.Admin { // the caller is not known
		return
	}
	if errors.Is(err, errAnswered) {
		err = nil
	}
	end := a.entry
	if end == nil {
		end = a.entryOf(a.call.tenant(), a.object(), outcomeDone)
	}
	switch {
	case err == nil && a.madeObject != "":
		end.Object, end.Outcome = a.madeObject, outcomeDone
	case err == nil && a.entry != nil:
		return // the first entry says it all
	case err != nil && a.entry != nil:
		end.Outcome = string(host.CodeOf(err))
	case err != nil && host.CodeOf(err) == host.PermissionDenied && c.api.denials.take(end.Actor, time.Now()):
		end.Outcome = outcomeDenied
	case err != nil:
		return // nothing was done
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), auditTimeout)
	defer cancel()
	if _, failed := c.api.options.Audit.Append(ctx, end); failed != nil {
		c.api.options.Logger.LogAttrs(ctx, slog.LevelError, "the outcome of a change is not in the audit log",
			slog.String("request", c.id), slog.String("route", c.route.id), slog.String("outcome", end.Outcome), slog.Any("error", failed))
	}
}

func (a *changeAudit) entryOf(tenant, object, outcome string) *audit.Entry {
	return &audit.Entry{Actor: Actor(a.call.principal), Action: a.call.route.audit, Tenant: plain(tenant), Object: object, Outcome: outcome, Request: a.call.id}
}

// object returns what the path names: the first of its variables that is no tenant, or the
// tenant.
func (a *changeAudit) object() string {
	names := a.call.route.pathNames()
	for _, name := range names {
		if name != "tenant" {
			return objectOf(name, a.call.r.PathValue(name))
		}
	}
	if len(names) > 0 {
		return objectOf("tenant", a.call.r.PathValue("tenant"))
	}
	return ""
}

// objectOf returns the name of an object in the audit log.
func objectOf(kind, id string) string { return plain(kind + "/" + id) }

// plain returns a text that an entry takes: an id that it does not take is none of a thing.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
	if len(text) > audit.MaxFieldBytes {
		text = strings.ToValidUTF8(text[:audit.MaxFieldBytes], "")
	}
	return text
}

// Actor returns the name of a caller in the audit log: admin/KEY, key/KEY, user/SUBJECT, the
// name of a local socket's user, or anonymous.
func Actor(p *keys.Principal) string {
	switch {
	case p.Admin && p.Key != "":
		return plain("admin/" + p.Key)
	case p.Key != "":
		return plain("key/" + p.Key)
	case p.Admin && p.Subject != "": // of a local socket, such as socket/0
		return plain(p.Subject)
	case p.Subject != "":
		return plain("user/" + p.Subject)
	}
	return "anonymous" // of a host without keys
}

// denials counts the denied changes of each caller in the present minute.
type denials struct {
	mu    sync.Mutex
	began time.Time
	of    map[string]int
}

// take counts a denied change, and reports whether it is to be written.
func (d *denials) take(caller string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || now.Sub(d.began) >= denialWindow {
		d.began, d.of = now, map[string]int{}
	}
	n, counted := d.of[caller]
	if n >= maxDenials || !counted && len(d.of) >= maxDeniedCallers {
		return false
	}
	d.of[caller] = n + 1
	return true
}
