package threads

import (
	"time"

	"github.com/agenthost/agenthost/host/kv"
)

// Where things are in a tenant's partition:
//
//	threads/thread/<id>                       the record of a thread
//	threads/recent/<updated>/<id>             empty; lists threads by time
//	threads/deleted/<content id>              its origins; content still to be removed
//	threads/run/<run id>                      the record of a journaled run
//	threads/lease/<run id>                    its fence, while it is open
//	threads/open/<run id>                     lists open runs: their questions with
//	                                          keys and times, or empty
//	threads/step/<run id>/<n>                 a step of an open run
//	threads/step/<run id>/<n>/<i>             a piece of a large one
//	threads/left/<run id>/<n>                 steps that an interrupted run left
//	threads/content/<content id>/log/<seq>          messages from position seq on
//	threads/content/<content id>/ids/<id>           positions of messages with ordered ids,
//	                                                and the turn of a run, by the least id
//	threads/content/<content id>/message/<id>       position of another message
//	threads/content/<content id>/turn/<n>           snapshot of turn n
//	threads/content/<content id>/run/<run id>       n of the turn of a run
//	                                                that is in no entry of ids
//	threads/content/<content id>/artifacts/<n>      artifacts that turn n put
//	threads/content/<content id>/blob/<digest>      the size of a blob
//	threads/content/<content id>/chunk/<digest>/<i> a piece of a blob
//	threads/content/<content id>/upload/<digest>    size and name of an upload, whose chunks
//	                                                are under that name instead of a digest
//	threads/content/<content id>/journal/<run id>   empty; journaled runs of the thread
//	threads/content/<content id>/view/<n>           the view of a head
//	threads/content/<content id>/head/<n>           head n, left behind
//	threads/content/<content id>/owned/<content id> empty; other contents of the thread
//	threads/serialized/<key>                  an agent thread (internal/savedthread)
//	threads/piece/<key>/<head>/<i>            a piece of a large one
//	threads/words/<content id>/<seq>                the word index of the messages there
//	threads/child/<content id>/<content id>         empty; the second refers to the first
//
// The content of a thread lies under an id of its own that is never used again.
// So a thread that is created again after a deletion has no entry of the old
// one, even if that removal was interrupted. Content that other content refers
// to stays for as long as that does.
var (
	threadKeys  = kv.NewKey("threads", "thread")
	recentKeys  = kv.NewKey("threads", "recent")
	deletedKeys = kv.NewKey("threads", "deleted")
	contentKeys = kv.NewKey("threads", "content")
	runKeys     = kv.NewKey("threads", "run")
	leaseKeys   = kv.NewKey("threads", "lease")
	openRunKeys = kv.NewKey("threads", "open")
	childKeys   = kv.NewKey("threads", "child")
)

func threadKey(id string) kv.Key   { return threadKeys.With(id) }
func runKey(run string) kv.Key     { return runKeys.With(run) }
func leaseKey(run string) kv.Key   { return leaseKeys.With(run) }
func openRunKey(run string) kv.Key { return openRunKeys.With(run) }
func stepKeys(run string) kv.Key   { return kv.NewKey("threads", "step", run) }
func leftKeys(run string) kv.Key   { return kv.NewKey("threads", "left", run) }

func recentKey(updated time.Time, id string) kv.Key {
	return recentKeys.WithUint(uint64(max(updated.UnixMicro(), 0))).With(id)
}

// content builds the keys of one thread's content.
type content kv.Key

func contentOf(id string) content { return content(contentKeys.With(id)) }

func (c content) all() kv.Key                 { return kv.Key(c) }
func (c content) log() kv.Key                 { return c.all().With("log") }
func (c content) logAt(seq uint64) kv.Key     { return c.log().WithUint(seq) }
func (c content) message(id string) kv.Key    { return c.all().With("message", id) }
func (c content) ids() kv.Key                 { return c.all().With("ids") }
func (c content) idsFrom(id string) kv.Key    { return c.ids().With(id) }
func (c content) turns() kv.Key               { return c.all().With("turn") }
func (c content) turn(n uint64) kv.Key        { return c.turns().WithUint(n) }
func (c content) runs() kv.Key                { return c.all().With("run") }
func (c content) run(id string) kv.Key        { return c.runs().With(id) }
func (c content) artifacts() kv.Key           { return c.all().With("artifacts") }
func (c content) artifactsOf(n uint64) kv.Key { return c.artifacts().WithUint(n) }
func (c content) blob(digest string) kv.Key   { return c.all().With("blob", digest) }
func (c content) uploads() kv.Key             { return c.all().With("upload") }
func (c content) upload(d string) kv.Key      { return c.uploads().With(d) }
func (c content) views() kv.Key               { return c.all().With("view") }
func (c content) view(n uint64) kv.Key        { return c.views().WithUint(n) }
func (c content) heads() kv.Key               { return c.all().With("head") }
func (c content) head(n uint64) kv.Key        { return c.heads().WithUint(n) }
func (c content) owned() kv.Key               { return c.all().With("owned") }
func (c content) journals() kv.Key            { return c.all().With("journal") }
func (c content) journal(run string) kv.Key   { return c.journals().With(run) }

func (c content) chunk(digest string, i int) kv.Key {
	return c.all().With("chunk", digest).WithUint(uint64(i))
}
