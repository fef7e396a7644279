package cluster

import (
	"context"
	"errors"
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

// The bounds of topics.
const (
	MaxTopics     = 1000
	MaxTopicBytes = 256
)

// topicPartition is apart from that of the heartbeats, so that these wake no reader.
const topicPartition = "agenthost/cluster"

var topicKeys = kv.NewKey("cluster", "topic")

// topics are the subscriptions of a member.
type topics struct {
	mu        sync.Mutex
	watching  bool
	functions map[string][]func()
	revisions map[string]uint64 // of the topics when they were read last
}

// Announce tells all members, this one included, that a topic has changed: the data
// that it names is in the store already. A topic is a short name, such as "grants";
// codes are invalid_argument for an empty or long one, and those of the driver.
func (m *Member) Announce(ctx context.Context, topic string) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	now := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
	_, err := kv.Apply(ctx, m.driver, kv.Tx{Partition: topicPartition, Writes: []kv.Write{kv.Put(topicKeys.With(topic), now)}})
	return kverror.Wrap(err, "announce a change of %q", topic)
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
	m.registering.Lock()
	defer m.registering.Unlock()
	if m.closed {
		return &fault.Error{Code: fault.Unavailable, Message: "the member of the cluster has left", Err: kv.ErrClosed}
	}
	e, err := m.driver.Get(ctx, topicPartition, topicKeys.With(topic))
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return kverror.Wrap(err, "subscribe to changes of %q", topic)
	}
	return m.subscribe(topic, e.Revision, fn)
}

func (m *Member) subscribe(topic string, revision uint64, fn func()) error {
	t := &m.topics
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.functions == nil {
		t.functions, t.revisions = map[string][]func(){}, map[string]uint64{}
	}
	if _, known := t.functions[topic]; !known {
		if len(t.functions) >= MaxTopics {
			return fault.Errorf(fault.ResourceExhausted, "subscribe to changes of %q: there are %d topics, as many as the limit MaxTopics allows", topic, MaxTopics)
		}
		t.revisions[topic] = revision
	}
	t.functions[topic] = append(t.functions[topic], fn)
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
	tick := time.NewTicker(topicPoll)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-woken:
		case <-tick.C:
		}
		if err := m.readTopics(); err != nil && m.ctx.Err() == nil {
			m.logger.Warn("changes of other hosts are not read", "error", err)
		}
	}
}

// readTopics calls the functions of the topics that have changed.
func (m *Member) readTopics() error {
	for e, err := range kv.All(m.ctx, m.driver, topicPartition, kv.Range{Prefix: topicKeys, Limit: kv.MaxScanLimit}) {
		if err != nil {
			return err
		}
		rest, _ := e.Key.CutPrefix(topicKeys)
		topic, _, ok := rest.CutString()
		if !ok {
			continue
		}
		for _, fn := range m.topics.changed(topic, e.Revision) {
			fn()
		}
	}
	return nil
}

// changed returns the functions of a topic if its revision is new.
func (t *topics) changed(topic string, revision uint64) []func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.functions[topic] == nil || t.revisions[topic] == revision {
		return nil
	}
	t.revisions[topic] = revision
	return t.functions[topic]
}
