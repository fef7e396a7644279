package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/internal/kverror"
	"github.com/agenthost/agenthost/host/kv"
)

// topicPoll is how often the topics are read where the store does not wake readers, and
// so the time within which a change is known to all members.
const topicPoll = 500 * time.Millisecond

// topicPollBehind is how often the topics are read where the store wakes readers, which
// polls for them itself.
const topicPollBehind = 5 * time.Second

// The bounds of topics.
const (
	MaxTopics     = 1000
	MaxTopicBytes = 256
)

// topicPartition is apart from that of the heartbeats, so that these wake no reader.
const topicPartition = "agenthost/cluster"

var topicKeys = kv.NewKey("cluster", "topic")

// The acknowledgements of topics, in a partition of their own so that they wake no reader:
//
//	cluster/ack/<topic>/<member>    the revision of the topic
const ackPartition = "agenthost/acks"

var ackKeys = kv.NewKey("cluster", "ack")

// The waits between two looks at the acknowledgements of other members: each is twice as
// long as the one before.
const (
	firstAckPoll = 5 * time.Millisecond
	lastAckPoll  = 200 * time.Millisecond
)

// topics are the subscriptions of a member.
type topics struct {
	mu        sync.Mutex
	watching  bool
	functions map[string][]func(context.Context) error
	revisions map[string]uint64 // of the topics when their functions were called last
	acked     map[string]bool   // the topics that AnnounceAndWait of any member waits for
}

// Announce tells all members, this one included, that a topic has changed: the data
// that it names is in the store already. A topic is a short name, such as "grants";
// codes are invalid_argument for an empty or long one, and those of the driver.
func (m *Member) Announce(ctx context.Context, topic string) error {
	_, err := m.announce(ctx, topic)
	return err
}

func (m *Member) announce(ctx context.Context, topic string) (revision uint64, err error) {
	if err := checkTopic(topic); err != nil {
		return 0, err
	}
	now := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
	revision, err = kv.Apply(ctx, m.driver, kv.Tx{Partition: topicPartition, Writes: []kv.Write{kv.Put(topicKeys.With(topic), now)}})
	return revision, kverror.Wrap(err, "announce a change of %q", topic)
}

// AnnounceAndWait is Announce that returns when the function of every member that has
// subscribed with [Member.SubscribeAcknowledged] has returned nil for it, this one
// included. It does not wait for a member that dies: one that was paused for longer than
// its lease, and comes back, calls its function then. It must not be called by a function
// of a subscription. Codes are those of Announce and of ctx.
func (m *Member) AnnounceAndWait(ctx context.Context, topic string) error {
	revision, err := m.announce(ctx, topic)
	if err != nil {
		return err
	}
	var observed time.Time
	for poll := firstAckPoll; ; poll = min(2*poll, lastAckPoll) {
		if time.Since(observed) >= m.Interval() {
			observed = time.Now()
			if _, err := m.Observe(ctx); err != nil {
				return err
			}
		}
		missing, err := m.unacknowledged(ctx, topic, revision)
		if err != nil {
			return kverror.Wrap(err, "wait for the other hosts to take a change of %q", topic)
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fault.Errorf(fault.CodeOf(fault.ContextError(ctx)), "host %s has not taken a change of %q: %w", missing[0], topic, fault.ContextError(ctx)).
				WithHint("stop that host, or try again when it answers")
		}
	}
}

// unacknowledged returns the living members that acknowledge a topic and have not yet done
// so at a revision. It removes the acknowledgements of members that are gone.
func (m *Member) unacknowledged(ctx context.Context, topic string, revision uint64) (missing []string, err error) {
	waiting := m.acknowledging(topic)
	of := ackKeys.With(topic)
	for e, err := range kv.All(ctx, m.driver, ackPartition, kv.Range{Prefix: of, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return nil, err
		}
		rest, _ := e.Key.CutPrefix(of)
		id, _, _ := rest.CutString()
		at, _ := strconv.ParseUint(string(e.Value), 10, 64)
		if _, lives := waiting[id]; lives && at >= revision {
			delete(waiting, id)
		} else if !lives {
			gone := kv.Tx{Partition: ackPartition, Quiet: true, Conds: []kv.Cond{kv.AtRevision(e.Key, e.Revision)}, Writes: []kv.Write{kv.Delete(e.Key)}}
			_, _ = kv.Apply(ctx, m.driver, gone) // the next announcement removes it otherwise
		}
	}
	return slices.Sorted(maps.Keys(waiting)), nil
}

// acknowledging returns the living members that acknowledge a topic.
func (m *Member) acknowledging(topic string) map[string]struct{} {
	found := map[string]struct{}{}
	m.mu.Lock()
	for id, p := range m.peers {
		if p.lives(time.Now()) && slices.Contains(p.record.Topics, topic) {
			found[id] = struct{}{}
		}
	}
	m.mu.Unlock()
	m.topics.mu.Lock()
	defer m.topics.mu.Unlock()
	if m.topics.acked[topic] {
		found[m.id] = struct{}{}
	}
	return found
}

// Subscribe calls fn after each announcement of a topic, by any member, that follows the
// return of Subscribe: within a second, while the store can be read. Several
// announcements may be one call. fn is called by one goroutine for all topics, so that
// it must not wait for long, until Close; it must not call Close. Codes are those of
// Announce, and unavailable after Close.
func (m *Member) Subscribe(ctx context.Context, topic string, fn func()) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	e, err := m.driver.Get(ctx, topicPartition, topicKeys.With(topic))
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return kverror.Wrap(err, "subscribe to changes of %q", topic)
	}
	return m.subscribe(topic, e.Revision, false, func(context.Context) error { fn(); return nil })
}

// SubscribeAcknowledged registers the member and is Subscribe for a function that
// [Member.AnnounceAndWait] waits for. fn is also called once soon after the subscription if
// the topic was announced before. While it returns an error it is called again, at least
// every half second. A member has one such function for a topic.
func (m *Member) SubscribeAcknowledged(ctx context.Context, topic string, fn func(context.Context) error) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	if err := m.Register(ctx); err != nil {
		return err
	}
	if err := m.subscribe(topic, 0, true, fn); err != nil {
		return err
	}
	return kverror.Wrap(m.beat(ctx), "subscribe to changes of %q", topic) // from then on others wait for this member
}

func errLeft() error {
	return &fault.Error{Code: fault.Unavailable, Message: "the member of the cluster has left", Err: kv.ErrClosed}
}

// subscribe adds a function of a topic, which was read at a revision.
func (m *Member) subscribe(topic string, revision uint64, acked bool, fn func(context.Context) error) error {
	m.registering.Lock()
	defer m.registering.Unlock()
	if m.closed {
		return errLeft()
	}
	t := &m.topics
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.functions == nil {
		t.functions, t.revisions, t.acked = map[string][]func(context.Context) error{}, map[string]uint64{}, map[string]bool{}
	}
	if _, known := t.functions[topic]; !known {
		if len(t.functions) >= MaxTopics {
			return fault.Errorf(fault.ResourceExhausted, "subscribe to changes of %q: there are %d topics, as many as the limit MaxTopics allows", topic, MaxTopics)
		}
		t.revisions[topic] = revision
	}
	t.functions[topic] = append(t.functions[topic], fn)
	t.acked[topic] = t.acked[topic] || acked
	if !t.watching {
		t.watching = true
		m.beating.Go(m.watchTopics)
	}
	return nil
}

func checkTopic(topic string) error {
	if topic == "" || len(topic) > MaxTopicBytes {
		return fault.Errorf(fault.InvalidArgument, "a topic of %d bytes: it has from 1 to %d", len(topic), MaxTopicBytes)
	}
	return nil
}

// watchTopics reads the topics when the store says so, and now and then.
func (m *Member) watchTopics() {
	var woken <-chan struct{}
	if n := kv.NotifierOf(m.driver); n != nil {
		changed, stop, err := n.Watch(topicPartition)
		if err == nil {
			woken = changed
			defer stop()
		}
	}
	pause := topicPoll
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-woken:
		case <-time.After(pause):
		}
		err := m.readTopics()
		if err != nil && m.ctx.Err() == nil {
			m.logger.Warn("changes of other hosts are not read", "error", err)
		}
		if pause = topicPoll; err == nil && woken != nil {
			pause = topicPollBehind
		}
	}
}

// readTopics calls the functions of the topics that have changed.
func (m *Member) readTopics() error {
	var failed []error
	for e, err := range kv.All(m.ctx, m.driver, topicPartition, kv.Range{Prefix: topicKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(topicKeys)
		topic, _, ok := rest.CutString()
		if !ok {
			continue
		}
		if err := m.callFunctions(topic, e.Revision); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// callFunctions calls the functions of a topic if its revision is new, and acknowledges it.
func (m *Member) callFunctions(topic string, revision uint64) error {
	functions, acked := m.topics.changed(topic, revision)
	for _, fn := range functions {
		if err := fn(m.ctx); err != nil {
			return fault.Errorf(fault.CodeOf(err), "a change of %q is not taken yet: %w", topic, err)
		}
	}
	if functions != nil && acked {
		at := strconv.AppendUint(nil, revision, 10)
		if _, err := kv.Apply(m.ctx, m.driver, kv.Tx{Partition: ackPartition, Quiet: true, Writes: []kv.Write{kv.Put(ackKeys.With(topic).With(m.id), at)}}); err != nil {
			return err
		}
	}
	m.topics.called(topic, revision)
	return nil
}

// changed returns the functions of a topic if its revision is new, and whether the topic
// is to be acknowledged.
func (t *topics) changed(topic string, revision uint64) (functions []func(context.Context) error, acked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.functions[topic] == nil || t.revisions[topic] == revision {
		return nil, false
	}
	return slices.Clone(t.functions[topic]), t.acked[topic]
}

// called notes that the functions of a topic have taken a revision.
func (t *topics) called(topic string, revision uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.functions[topic] != nil {
		t.revisions[topic] = revision
	}
}

// acknowledged returns the topics that this member acknowledges, sorted.
func (t *topics) acknowledged() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for topic, acked := range t.acked {
			if acked && !yield(topic) {
				return
			}
		}
	})
}
