package redismessages

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/internal/defaults"
)

// The limits that callers meet.
const (
	// DefaultKeyPrefix begins the keys.
	DefaultKeyPrefix = "chat_messages"
	// DefaultTenant is the tenant of threads that name none.
	DefaultTenant = host.DefaultTenant
	// DefaultWindow is how many messages are listed at most, from the end.
	DefaultWindow = 2000
	// MaxIDBytes is the longest id of a thread.
	MaxIDBytes = chat.MaxIDBytes
	// MaxPrefixBytes is the longest prefix of keys.
	MaxPrefixBytes = 256
	// maxAttempts is how often an append starts again because another was faster.
	// Of racing ones one always wins, so it takes more writers than this for one of
	// them to give up.
	maxAttempts = 128
	// pairSpan is how far into a window a result may be whose call was cut off in
	// front of it: more than the calls that one answer may make.
	pairSpan = 256
)

// StoreType is the type of these stores in a serialized thread.
const StoreType = "redis"

// Options are settings of the stores. The zero value of each is its default.
type Options struct {
	// KeyPrefix begins every key ([DefaultKeyPrefix]).
	KeyPrefix string

	// MaxMessages is how many messages of a thread are kept: see
	// [host.KeepNewest]. 0 keeps all.
	MaxMessages int

	// Window is how many messages are listed at most, from the end, and with them
	// the first of the list if it is a system message ([DefaultWindow]).
	Window int

	// SkipUnreadable omits unreadable elements of a list, and logs them, where
	// listing otherwise fails and names the element.
	SkipUnreadable bool

	Logger *slog.Logger // nil discards
}

// Stores opens the message stores of threads. Safe for concurrent use.
type Stores struct {
	client redis.UniversalClient
	owns   bool
	opts   Options
}

var _ host.MessageStores = (*Stores)(nil)

// Open connects to the server that url names, like
// redis://user:password@host:6379/0, rediss:// with TLS, or
// unix:///run/redis.sock. The stores must be closed. The client library has one
// log for the process, on stderr: Open turns it off the first time, and a program
// that wants it calls redis.SetLogger after Open. Code invalid_argument for a
// url that cannot be read and for options that cannot work, and the errors of the
// package for a server that does not answer.
func Open(ctx context.Context, url string, opts *Options) (*Stores, error) {
	config, err := redis.ParseURL(url)
	if err != nil { // it may quote the url, and the password in it
		return nil, host.Errorf(host.InvalidArgument, "the address of the Redis server cannot be read").
			WithHint("it is like redis://user:password@host:6379/0")
	}
	config.DisableIdentity = true // one round trip less, and nothing that an old server does not know
	config.ContextTimeoutEnabled = true
	silenceClient()
	client := redis.NewClient(config)
	s, err := New(client, opts)
	if err == nil {
		err = wrap(client.Ping(ctx).Err(), "connect to Redis")
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	s.owns = true
	return s, nil
}

// silenceClient turns the log of the client library off. Every error that it
// prints is also returned, and its lines would stand inside a conversation.
var silenceClient = sync.OnceFunc(logging.Disable)

// New is [Open] for a program that has a client of its own, which Close then does
// not close; it connects to nothing. A client heeds the deadlines of a run only
// with ContextTimeoutEnabled.
func New(client redis.UniversalClient, opts *Options) (*Stores, error) {
	if client == nil {
		panic("redismessages.New: client is nil; make one, or use Open")
	}
	s := &Stores{client: client}
	if opts != nil {
		s.opts = *opts
	}
	switch o := &s.opts; {
	case o.MaxMessages < 0:
		return nil, host.Errorf(host.InvalidArgument, "max_messages is %d", o.MaxMessages).WithHint("0 keeps all")
	case len(o.KeyPrefix) > MaxPrefixBytes || !utf8.ValidString(o.KeyPrefix):
		return nil, host.Errorf(host.InvalidArgument, "key_prefix is no UTF-8 of at most %d bytes", MaxPrefixBytes)
	}
	if s.opts.KeyPrefix == "" {
		s.opts.KeyPrefix = DefaultKeyPrefix
	}
	defaults.Set(&s.opts.Window, DefaultWindow)
	if s.opts.Logger == nil {
		s.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Close closes what Open opened. The stores cannot be used after it.
func (s *Stores) Close() error {
	if !s.owns {
		return nil
	}
	return s.client.Close()
}

// StoreType returns [StoreType].
func (s *Stores) StoreType() string { return StoreType }

// state is the serialized form of a store.
type state struct {
	Thread *string `json:"thread_id"`
	Prefix *string `json:"key_prefix"`
}

// OpenStore implements [host.MessageStores]: the list of the thread's id, or of
// the thread that the state names, of the tenant that asks. Nothing is sent. Code
// data_loss for a state of another form, failed_precondition for one of other
// stores, invalid_argument for an id that no thread can have.
func (s *Stores) OpenStore(_ context.Context, req *host.StoreRequest) (host.MessageStore, error) {
	thread := req.Thread
	if req.State != nil {
		st, err := readState(req.State)
		if err != nil {
			return nil, host.Errorf(host.DataLoss, "the state of the messages of thread %q cannot be read: %w", req.Thread, err)
		}
		if *st.Prefix != s.opts.KeyPrefix {
			return nil, host.Errorf(host.FailedPrecondition, "the messages of thread %q are under another key_prefix than these stores have", req.Thread).
				WithHint("open them with the key_prefix that they were stored with")
		}
		thread = *st.Thread
	}
	tenant, err := host.TenantPartition(req.Tenant)
	if err == nil {
		err = chat.ValidateID("thread", thread, MaxIDBytes)
	}
	if err != nil {
		return nil, err
	}
	return &Store{stores: s, thread: thread, key: s.opts.KeyPrefix + ":" + escape(tenant) + ":" + escape(thread)}, nil
}

func readState(raw json.RawMessage) (*state, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var st state
	if err := dec.Decode(&st); err != nil {
		return nil, err
	}
	if dec.More() || st.Thread == nil || st.Prefix == nil {
		return nil, host.Errorf(host.DataLoss, "it is not an object with thread_id and key_prefix")
	}
	return &st, nil
}

// escape makes a name that has no colon, and two names never one.
func escape(name string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(name)
}
