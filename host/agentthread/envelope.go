package agentthread

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/host/internal/replay"
	"github.com/agenthost/agenthost/host/internal/statedoc"
)

// envelopeVersion is the version of a serialized agent thread.
const envelopeVersion = 1

// MaxBytes is the longest serialized agent thread.
const MaxBytes = 64 << 20

// Serialize returns the thread as JSON, to be kept until the agent's
// [Restore]: in package threads, or anywhere else. It holds the
// messages that are nowhere else, and no secret. Members:
//
//	version    1
//	kind       "undecided", "service" or "store"
//	id, tenant
//	agent      {"name", "digest"}: whose it is, and of which configuration
//	service    {"conversation"}: the id of the service's conversation
//	store      {"type", "state"}: opaque to all but the store's factory
//	open       messages that neither has, the first "known" of which the service knows
//	state      custom state
//	providers  {key: state} of context providers
//	answers    which turns answered its last messages with ids of a client's
//	waiting    the calls that the last run asks about: see [Thread.Questions]
//	sum        of all other members, so that a damaged thread is found
//
// Its members may be reordered and reformatted, as databases do. A run that is
// under way is not in it. Code resource_exhausted beyond [MaxBytes].
func (t *Thread) Serialize(ctx context.Context) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := strconv.AppendInt([]byte(`{"version":`), envelopeVersion, 10)
	b = jsondoc.AppendString(append(b, `,"kind":`...), string(t.kind))
	b = jsondoc.AppendString(append(b, `,"id":`...), t.opts.ID)
	if t.opts.Tenant != "" {
		b = jsondoc.AppendString(append(b, `,"tenant":`...), t.opts.Tenant)
	}
	b = jsondoc.AppendString(append(b, `,"agent":{"name":`...), t.owner.Name)
	b = append(jsondoc.AppendString(append(b, `,"digest":`...), t.owner.Digest), '}')
	if t.kind == Service {
		b = append(jsondoc.AppendString(append(b, `,"service":{"conversation":`...), t.service), '}')
	} else if t.store != nil {
		state, err := t.store.Serialize(ctx)
		if err == nil && jsondoc.Check(state) != nil {
			err = fault.Errorf(fault.Internal, "the store serialized itself as what is not JSON")
		}
		if err != nil {
			return nil, fault.Wrap(err, "serialize the messages of thread %q", t.opts.ID)
		}
		b = jsondoc.AppendString(append(b, `,"store":{"type":`...), t.storesOrMemory().StoreType())
		b = append(append(append(b, `,"state":`...), state...), '}')
	}
	if len(t.open) > 0 {
		b = chat.AppendMessagesJSON(append(b, `,"open":`...), t.open)
		b = strconv.AppendInt(append(b, `,"known":`...), int64(t.known), 10)
	}
	if t.state != nil {
		b = append(append(b, `,"state":`...), t.state...)
	}
	if len(t.providers) > 0 {
		b = jsondoc.AppendMembers(append(b, `,"providers":`...), t.providers)
	}
	if len(t.answers) > 0 {
		raw, err := json.Marshal(t.answers)
		if err != nil {
			return nil, fault.Errorf(fault.Internal, "serialize thread %q: %w", t.opts.ID, err)
		}
		b = append(append(b, `,"answers":`...), raw...)
	}
	if t.waiting.ForAnyone() {
		raw, err := json.Marshal(t.waiting.ForClient())
		if err != nil {
			return nil, fault.Errorf(fault.Internal, "serialize the questions of thread %q: %w", t.opts.ID, err)
		}
		b = append(append(b, `,"waiting":`...), raw...)
	}
	b = append(b, '}')
	sum, err := sumOf(b)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "serialize thread %q: %w", t.opts.ID, err)
	}
	b = append(jsondoc.AppendString(append(b[:len(b)-1], `,"sum":`...), sum), '}')
	if len(b) > MaxBytes {
		return nil, fault.Errorf(fault.ResourceExhausted, "thread %q is %d bytes, more than %d", t.opts.ID, len(b), MaxBytes).
			WithHint("keep its messages in a message store, or reduce them")
	}
	return b, nil
}

// sumOf hashes the contents of a serialized thread, whatever its formatting.
func sumOf(raw []byte) (string, error) {
	doc, err := jsondoc.Decode(raw)
	if err != nil {
		return "", err
	}
	members, ok := doc.(map[string]any)
	if !ok {
		return "", fmt.Errorf("it is %s, not an object", jsondoc.TypeName(doc))
	}
	delete(members, "sum")
	sum := sha256.Sum256(jsondoc.Encode(plainNumbers(members)))
	return hex.EncodeToString(sum[:]), nil
}

// plainNumbers writes the numbers of a document in one way, in place: 1.50 and
// 15e-1 are the same.
func plainNumbers(doc any) any {
	switch v := doc.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = plainNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plainNumbers(e)
		}
	case json.Number:
		d := jsondoc.DecimalOf(v)
		if d.Overflow == "" {
			return json.Number(fmt.Sprintf("%t %s %d", d.Negative, d.Digits, d.Exponent))
		}
	}
	return doc
}

// Restore returns the thread that [Thread.Serialize] wrote. Its store
// is opened by the owner's stores. Nothing is written, and
// data is left alone; from one serialized thread any number of threads can be
// made, which are independent except for a store that they share. Of opts
// Tenant, StrictStore, DiscardOnFailure, AnyAgent and Store are used. Codes:
//
//	data_loss            it is damaged: cut off, changed, of another shape
//	failed_precondition  it is of another version, agent or configuration
//	permission_denied    it is another tenant's
//	resource_exhausted   it is longer than MaxBytes
//	invalid_argument     opts has an ID or a Conversation
func Restore(ctx context.Context, owner Owner, data []byte, opts *Options) (*Thread, error) {
	if opts != nil && (opts.ID != "" || opts.Conversation != "") {
		return nil, fault.Errorf(fault.InvalidArgument, "a serialized thread has an id and a conversation of its own").WithHint("leave ID and Conversation out")
	}
	if len(data) > MaxBytes {
		return nil, fault.Errorf(fault.ResourceExhausted, "serialized thread is %d bytes, more than %d", len(data), MaxBytes)
	}
	e, err := readEnvelope(data)
	if err != nil {
		if fault.CodeOf(err) == fault.FailedPrecondition {
			return nil, err
		}
		return nil, fault.Errorf(fault.DataLoss, "serialized thread cannot be read: %w", err).
			WithHint("it is not what was serialized; nothing of it was used")
	}
	t, err := newThread(owner, opts)
	if err != nil {
		return nil, err
	}
	if err := t.checkEnvelope(e); err != nil {
		return nil, err
	}
	if err := t.take(ctx, e); err != nil {
		return nil, err
	}
	return t, nil
}

// envelope is a serialized thread.
type envelope struct {
	kind          Kind
	id, tenant    string
	agent, digest string
	conversation  string
	storeType     string
	store         json.RawMessage // its state; nil if there is no store
	open          []*chat.Message
	known         int
	state         json.RawMessage
	providers     map[string]json.RawMessage
	answers       []answer
	waiting       *replay.Kept
}

// readEnvelope reads a serialized thread, and checks that nothing was changed.
func readEnvelope(data []byte) (*envelope, error) {
	if err := checkVersion(data); err != nil {
		return nil, err
	}
	e := &envelope{}
	var version, kind, id, tenant, agent, service, store, open, known, providers, answers, waiting, sum json.RawMessage
	err := jsondoc.DecodeMembers(data, jsondoc.Required("version", &version), jsondoc.Required("kind", &kind), jsondoc.Required("id", &id),
		jsondoc.Allowed("tenant", &tenant), jsondoc.Required("agent", &agent), jsondoc.Allowed("service", &service), jsondoc.Allowed("store", &store),
		jsondoc.Allowed("open", &open), jsondoc.Allowed("known", &known), jsondoc.Allowed("state", &e.state), jsondoc.Allowed("providers", &providers), jsondoc.Allowed("answers", &answers), jsondoc.Allowed("waiting", &waiting), jsondoc.Required("sum", &sum))
	if err != nil {
		return nil, err
	}
	var want string
	if err := jsondoc.DecodeString("sum", sum, &want); err != nil {
		return nil, err
	}
	if got, err := sumOf(data); err != nil || got != want {
		return nil, fmt.Errorf("its sum is not that of its members")
	}
	err = cmp.Or(jsondoc.DecodeString("kind", kind, (*string)(&e.kind)), jsondoc.DecodeString("id", id, &e.id), e.readAgent(agent), e.readService(service),
		e.readStore(store), e.readOpen(open, known), e.readProviders(providers), e.readAnswers(answers), e.readWaiting(waiting))
	if err == nil && tenant != nil {
		err = jsondoc.DecodeString("tenant", tenant, &e.tenant)
	}
	if err != nil {
		return nil, err
	}
	return e, e.check()
}

// checkVersion checks the version first, so that the error of a newer thread names
// its version.
func checkVersion(data []byte) error {
	if err := jsondoc.Check(data); err != nil {
		return err
	}
	var version []byte
	err := jsondoc.EachMember(data, func(name string, v []byte) error {
		if name == "version" && version == nil {
			version = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(version))
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("its version is %.20q", version)
	case n != envelopeVersion:
		return fault.Errorf(fault.FailedPrecondition, "serialized thread is of version %d, and this host reads version %d", n, envelopeVersion).
			WithHint("use the version of the host that wrote it; nothing was changed")
	}
	return nil
}

func (e *envelope) readAgent(raw json.RawMessage) error {
	var name, digest json.RawMessage
	if err := jsondoc.DecodeMembers(raw, jsondoc.Required("name", &name), jsondoc.Required("digest", &digest)); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return cmp.Or(jsondoc.DecodeString("agent's name", name, &e.agent), jsondoc.DecodeString("agent's digest", digest, &e.digest))
}

func (e *envelope) readService(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var conversation json.RawMessage
	if err := jsondoc.DecodeMembers(raw, jsondoc.Required("conversation", &conversation)); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return jsondoc.DecodeString("conversation", conversation, &e.conversation)
}

func (e *envelope) readWaiting(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	e.waiting = &replay.Kept{}
	return json.Unmarshal(raw, e.waiting)
}

func (e *envelope) readStore(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var kind json.RawMessage
	if err := jsondoc.DecodeMembers(raw, jsondoc.Required("type", &kind), jsondoc.Required("state", &e.store)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return jsondoc.DecodeString("store's type", kind, &e.storeType)
}

func (e *envelope) readOpen(raw, known json.RawMessage) (err error) {
	if raw == nil && known == nil {
		return nil
	}
	if e.open, err = chat.DecodeMessages(raw); err != nil {
		return err
	}
	if e.known, err = strconv.Atoi(string(known)); err != nil || e.known < 0 || e.known > min(1, len(e.open)) {
		return fmt.Errorf("known is %.20q of %d open messages", known, len(e.open))
	}
	return chat.CheckForm(e.open)
}

func (e *envelope) readProviders(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	e.providers = map[string]json.RawMessage{}
	return jsondoc.EachMember(raw, func(name string, v []byte) error {
		if e.providers[name] != nil {
			return fmt.Errorf("provider %.40q is given twice", name)
		}
		e.providers[name] = bytes.Clone(v)
		return nil
	})
}

// check refuses members that do not belong to the thread's kind.
func (e *envelope) check() error {
	switch {
	case !validThreadID(e.id):
		return fmt.Errorf("its id is one that no thread has")
	case e.kind == Service && (e.conversation == "" || e.store != nil):
		return fmt.Errorf("a thread of the kind service has a conversation and no store")
	case e.kind == InStore && (e.conversation != "" || e.store == nil):
		return fmt.Errorf("a thread of the kind store has a store and no conversation")
	case e.kind == Undecided && e.conversation != "":
		return fmt.Errorf("an undecided thread has no conversation")
	case e.kind != Service && e.known > 0:
		return fmt.Errorf("no service knows its messages")
	case e.kind != Service && e.kind != InStore && e.kind != Undecided:
		return fmt.Errorf("its kind is %.20q", e.kind)
	}
	if e.state == nil {
		return nil
	}
	if _, err := statedoc.Members(e.state); err != nil {
		return fmt.Errorf("its state: %w", err)
	}
	return nil
}

// checkEnvelope refuses the thread of another tenant, or of an agent that opts
// exclude.
func (t *Thread) checkEnvelope(e *envelope) error {
	if e.tenant != t.opts.Tenant {
		return fault.Errorf(fault.PermissionDenied, "the serialized thread is not this tenant's")
	}
	if t.opts.AnyAgent {
		return nil
	}
	if e.agent != t.owner.Name {
		return fault.Errorf(fault.FailedPrecondition, "the serialized thread is one of agent %q, not of %q", e.agent, t.owner.Name).
			WithHint("restore it with that agent, or allow it with ThreadOptions.AnyAgent")
	}
	if e.digest != t.owner.Digest {
		return fault.Errorf(fault.FailedPrecondition, "agent %q had other message stores or providers when the thread was serialized", e.agent).
			WithHint("give it those, or allow others with ThreadOptions.AnyAgent")
	}
	return nil
}

// take fills the thread from the envelope.
func (t *Thread) take(ctx context.Context, e *envelope) error {
	t.opts.ID, t.kind, t.service = e.id, e.kind, e.conversation
	t.open, t.known, t.state, t.providers, t.answers = e.open, e.known, e.state, e.providers, e.answers
	if e.waiting != nil {
		t.waiting = e.waiting.ForClient()
		t.waiting.Thread = e.id
	}
	if e.store == nil {
		if t.kind == Undecided {
			return t.openStore(ctx, nil)
		}
		return nil
	}
	if own := t.storesOrMemory().StoreType(); own != e.storeType {
		return fault.Errorf(fault.FailedPrecondition, "the messages of thread %q are in a store of the type %s, and agent %q has one of the type %s", e.id, e.storeType, t.owner.Name, own).
			WithHint("give the agent stores of that type")
	}
	return t.openStore(ctx, e.store)
}

// Digest names the configuration of an agent that a serialized thread depends on: the
// type of the message stores, nil for memory, and the context providers by their names.
func Digest(stores Stores, providers []string) string {
	store := memoryType
	if stores != nil {
		store = stores.StoreType()
	}
	b := append(jsondoc.AppendString([]byte(`{"store":`), store), `,"providers":[`...)
	for i, name := range slices.Sorted(slices.Values(providers)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsondoc.AppendString(b, name)
	}
	sum := sha256.Sum256(append(b, ']', '}'))
	return hex.EncodeToString(sum[:16])
}
