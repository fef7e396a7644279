package transfer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/threads"
)

// Format is a form that a thread can be exported in.
type Format string

// The formats.
const (
	// FormatThread is everything a thread holds, as one JSON object:
	//
	//	{"format":"agenthost.thread","version":2,
	//	 "thread":{...},          as Thread, without the tenant
	//	 "messages":[...],        as the plugin contract has them
	//	 "snapshots":[...],       as Snapshot, and "state_value", the state after
	//	                          the turn if it is not that of the turn before, with
	//	                          "providers_value", the providers' states after it
	//	 "state":{...},           absent without a state
	//	 "providers":{...},       the states of context providers by key; absent
	//	                          without any
	//	 "artifacts":[...],       {"name"?,"parts","metadata"?}
	//	 "uploads":[...]}         the uploads they refer to, {"digest","chunks":[...]},
	//	                          the pieces in base64; absent without any
	//
	// State and artifacts are the present ones. Import wants the members in this
	// order. In version 1, which Import still reads, a state with the states of
	// providers was [{...},{"provider":state}], and so was a state_value.
	FormatThread Format = "thread"
	// FormatOpenAI is {"messages":[...]} on one line, each message as OpenAI's
	// chat API has it: what a chat request takes, and a line of a training file.
	FormatOpenAI Format = "openai"
	// FormatOpenAILines is the same messages, one on each line.
	FormatOpenAILines Format = "openai-jsonl"
)

// Formats returns the formats that Export knows.
func Formats() []Format { return []Format{FormatThread, FormatOpenAI, FormatOpenAILines} }

// The format and version that mark an exported thread.
const (
	exportFormat  = "agenthost.thread"
	exportVersion = 2
)

// Export writes a whole thread to w in a format, FormatThread if it is empty. It
// holds a page of the log in memory, whatever the length of the thread, and
// writes the moment of the thread at which Export begins. On an error, w has
// received an incomplete document. Code not_found if there is no such thread,
// invalid_argument for an unknown format; an error of w is returned unchanged.
func Export(ctx context.Context, tenant *threads.Tenant, id string, format Format, w io.Writer) error {
	write, err := exporter(format)
	if err != nil {
		return err
	}
	t, err := tenant.Moment(ctx, id, threads.At{})
	if err != nil {
		return err
	}
	out := &exportWriter{w: bufio.NewWriter(w)}
	if err := write(ctx, t, out); err != nil {
		return err
	}
	return out.w.Flush()
}

func exporter(format Format) (func(context.Context, *threads.Moment, *exportWriter) error, error) {
	switch format {
	case "", FormatThread:
		return exportThread, nil
	case FormatOpenAI:
		return exportOpenAI, nil
	case FormatOpenAILines:
		return exportOpenAILines, nil
	}
	return nil, unknownFormat("export", format)
}

// exportWriter writes pieces of JSON. After a write that failed the others do
// nothing, so only long loops need to look at err.
type exportWriter struct {
	w   *bufio.Writer
	err error
	buf []byte // of one message

	uploads []string // digests that were referred to
}

// refer notes the uploads that parts refer to.
func (o *exportWriter) refer(parts []host.Part) {
	for _, p := range parts {
		media, ok := p.(*host.Media)
		if !ok {
			continue
		}
		if digest, ok := threads.UploadDigest(media.URL); ok && !slices.Contains(o.uploads, digest) {
			o.uploads = append(o.uploads, digest)
		}
	}
}

func (o *exportWriter) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

func (o *exportWriter) raw(b []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

// separate writes the separator of the elements of a list.
func (o *exportWriter) separate(i int, first, next string) {
	if i == 0 {
		o.text(first)
		return
	}
	o.text(next)
}

func exportThread(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	info := t.Thread()
	info.Tenant = ""
	head, err := json.Marshal(info)
	if err != nil {
		return host.Errorf(host.Internal, "export thread %q: %w", info.ID, err)
	}
	o.text(fmt.Sprintf("{\"format\":%q,\"version\":%d,\n\"thread\":%s,\n\"messages\":[", exportFormat, exportVersion, head))
	for _, part := range []func(context.Context, *threads.Moment, *exportWriter) error{
		exportMessages, exportSnapshots, exportState, exportArtifacts, exportUploads,
	} {
		if err := part(ctx, t, o); err != nil {
			return err
		}
	}
	o.text("}\n")
	return nil
}

func exportMessages(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	i := 0
	for m, err := range t.Messages(ctx) {
		if err != nil || o.err != nil {
			return cmp.Or(err, o.err)
		}
		o.separate(i, "\n", ",\n")
		o.buf = m.AppendJSON(o.buf[:0])
		o.raw(o.buf)
		o.refer(m.Parts)
		i++
	}
	o.text("],\n\"snapshots\":[")
	return nil
}

// exportedSnapshot is a snapshot in FormatThread.
type exportedSnapshot struct {
	threads.Snapshot
	StateValue     json.RawMessage            `json:"state_value,omitempty"`
	ProvidersValue map[string]json.RawMessage `json:"providers_value,omitempty"`
}

func exportSnapshots(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	i, before := 0, threads.Ref{}
	for snap, err := range t.Snapshots(ctx) {
		if err != nil {
			return err
		}
		raw, err := marshal(snap)
		if err != nil {
			return host.Errorf(host.Internal, "export thread %q: %w", t.Thread().ID, err)
		}
		o.separate(i, "\n", ",\n")
		o.raw(raw[:len(raw)-1])
		if snap.State != nil && *snap.State != before {
			before = *snap.State
			custom, providers, err := t.State(ctx, snap.State)
			if err == nil {
				err = o.states(custom, providers, `,"state_value":`, `,"providers_value":`)
			}
			if err != nil {
				return err
			}
		}
		o.text("}")
		i++
	}
	o.text("],\n")
	return nil
}

func exportState(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	if ref := t.StateRef(); ref != nil {
		custom, providers, err := t.State(ctx, ref)
		if err == nil {
			err = o.states(custom, providers, `"state":`, ",\n\"providers\":")
		}
		if err != nil {
			return err
		}
		o.text(",\n")
	}
	o.text("\"artifacts\":[")
	return nil
}

// states writes the custom state and, if there are any, the states of providers,
// each after its name. Put together again they are the same blob, or their digest
// would be another.
func (o *exportWriter) states(custom json.RawMessage, providers map[string]json.RawMessage, customName, providersName string) error {
	o.text(customName)
	o.raw(custom)
	if len(providers) == 0 {
		return nil
	}
	raw, err := json.Marshal(providers)
	if err != nil {
		return host.Errorf(host.Internal, "export the states of context providers: %w", err)
	}
	o.text(providersName)
	o.raw(raw)
	return nil
}

func exportArtifacts(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	list, err := t.Artifacts(ctx)
	if err != nil {
		return err
	}
	for i, info := range list {
		raw, err := t.ArtifactJSON(ctx, info)
		if err != nil {
			return err
		}
		o.separate(i, "\n", ",\n")
		o.raw(raw)
		var a host.Artifact
		if a.UnmarshalJSON(raw) == nil {
			o.refer(a.Parts)
		}
	}
	o.text("]")
	return nil
}

func exportUploads(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	n := 0
	for _, digest := range o.uploads {
		r, _, err := t.OpenUpload(ctx, digest)
		if host.CodeOf(err) == host.NotFound {
			continue // a made-up address
		}
		if err != nil {
			return err
		}
		o.separate(n, ",\n\"uploads\":[\n", ",\n")
		if err := exportUpload(o, digest, r); err != nil {
			return err
		}
		n++
	}
	if n > 0 {
		o.text("]")
	}
	return nil
}

func exportUpload(o *exportWriter, digest string, r io.Reader) error {
	o.text(fmt.Sprintf(`{"digest":%q,"chunks":[`, digest))
	piece := make([]byte, threads.ChunkBytes)
	for i := 0; o.err == nil; i++ {
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			o.separate(i, "", ",")
			o.buf = append(base64.StdEncoding.AppendEncode(append(o.buf[:0], '"'), piece[:n]), '"')
			o.raw(o.buf)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fault.AsError(err)
		}
	}
	o.text("]}")
	return nil
}

func exportOpenAI(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	o.text(`{"messages":[`)
	i := 0
	err := openAIMessages(ctx, t, o, func(line []byte) {
		o.separate(i, "", ",")
		o.raw(line)
		i++
	})
	o.text("]}\n")
	return err
}

func exportOpenAILines(ctx context.Context, t *threads.Moment, o *exportWriter) error {
	return openAIMessages(ctx, t, o, func(line []byte) {
		o.raw(line)
		o.text("\n")
	})
}

func openAIMessages(ctx context.Context, t *threads.Moment, o *exportWriter, write func([]byte)) error {
	for m, err := range t.Messages(ctx) {
		if err != nil || o.err != nil {
			return cmp.Or(err, o.err)
		}
		if raw := originalOpenAI(m); raw != nil {
			write(raw)
			continue
		}
		for _, out := range toOpenAI(m) {
			line, err := marshal(out)
			if err != nil {
				return host.Errorf(host.Internal, "export message %q of thread %q: %w", m.ID, t.Thread().ID, err)
			}
			write(line)
		}
	}
	return nil
}
