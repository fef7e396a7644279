package datadir_test

// Scenario: random damages of the files of a data directory. It opens with everything
// in it, or the damage is reported: by Open, or by each read of damaged content and by
// Verify. AGENTHOST_TEST_DAMAGES sets the number of damages, see CONTRIBUTING.md.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/chat"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/internal/filedamage"
	"github.com/agenthost/agenthost/host/runevent"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/host/trace"
)

const (
	damageDefault = 24
	// contentsName is the file with the digests of all content, beside the directories
	// of the store and the traces.
	contentsName = "contents.json"
	damageTurns  = 8 // of each thread
	damageText   = 3 << 10
)

func TestDamagedFilesAreFoundOrHarmless(t *testing.T) {
	filedamage.Run(t, &filedamage.Test{Fill: fillDirectory, Open: openDamaged, Candidates: damageable, Default: damageDefault})
}

// damageable leaves one large value and one trace, of which the directory has many.
func damageable(r *rand.Rand, files []string) []string {
	files = slices.DeleteFunc(files, func(name string) bool { return name == contentsName })
	return filedamage.OneOf(r, filedamage.OneOf(r, files, filepath.Join(datadir.StoreName, "blobs")), datadir.TracesName)
}

func damageOptions(c filedamage.Case) *datadir.Options {
	return &datadir.Options{Getenv: func(name string) string {
		if c.Encrypted && name == datadir.KeyVariable {
			return strings.Repeat("6b", 32)
		}
		return ""
	}}
}

// fillDirectory fills a directory in three lives of the store, so that it has tables
// and, if the process is killed, commits that no table has yet.
func fillDirectory(t *testing.T, dir string, c filedamage.Case) func() error {
	for life := range 2 {
		d := openToFill(t, dir, c)
		fillLife(t, d, dir, life)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d := openToFill(t, dir, c)
	fillLife(t, d, dir, 2)
	shown, errs := readContents(t.Context(), d, dir)
	for what, err := range errs {
		t.Fatalf("%s, nothing damaged: %v", what, err)
	}
	raw, err := json.Marshal(shown)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, contentsName), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// A last commit that is damaged looks like one of which the end did not reach the
	// disk, and Badger drops it: see Damage in the page of package badgerkv. So the last
	// commit is one that is not compared.
	if _, _, err := threads.New(d.Driver, nil).For("last").Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return d.Close
}

func openToFill(t *testing.T, dir string, c filedamage.Case) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(t.Context(), dir, damageOptions(c))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var damageTenants = []string{"acme", "globex"}

// fillLife gives each tenant a thread, with artifacts and an upload, and a trace.
func fillLife(t *testing.T, d *datadir.Dir, dir string, life int) {
	t.Helper()
	store := threads.New(d.Driver, nil)
	for n, tenant := range damageTenants {
		seed := [32]byte{byte(life), byte(n)}
		random := rand.NewChaCha8(seed)
		thread := fmt.Sprintf("thread-%d", life)
		for i := range damageTurns {
			req := &host.HistoryRequest{Tenant: tenant, Thread: thread, Run: fmt.Sprintf("run-%d-%d", life, i), Input: host.UserText(noise(random, damageText))}
			head, err := store.AppendUserMessage(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			turn := &host.Turn{Head: head, Status: chat.FinishStop, State: fmt.Appendf(nil, `{"n":%d}`, i), Results: []*host.Result{{
				Agent: "clerk", Messages: []*host.Message{host.AssistantText(noise(random, damageText))}, FinishReason: chat.FinishStop, Rounds: 1,
			}}}
			if i%4 == 0 { // the value of a large artifact is a file of its own
				turn.Artifacts = []host.Artifact{{Name: fmt.Sprint("large", i), Parts: []host.Part{&host.Text{Text: noise(random, 160<<10)}}}}
			}
			if err := store.AppendResults(t.Context(), req, turn); err != nil {
				t.Fatal(err)
			}
		}
		upload := strings.NewReader(noise(random, threads.ChunkBytes+10_000))
		if _, err := store.For(tenant).Upload(t.Context(), thread, upload, 0); err != nil {
			t.Fatal(err)
		}
		fillTrace(t, d, dir, tenant, fmt.Sprintf("run-%d", life))
	}
}

func fillTrace(t *testing.T, d *datadir.Dir, dir, tenant, run string) {
	t.Helper()
	traces, err := d.OpenTraces(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range []host.EventData{
		&runevent.RunStarted{Tenant: tenant, Thread: "thread"},
		&runevent.ToolStarted{ID: "c1", Name: "search", Arguments: json.RawMessage(`{"q":"what was asked"}`)},
		&runevent.ToolFinished{ID: "c1", Name: "search", Content: json.RawMessage(`"what was found"`)},
		&runevent.RunFinished{FinishReason: chat.FinishStop, Thread: "thread"},
	} {
		traces.Trace(host.Scope{Tenant: tenant}, host.Event{Seq: int64(i + 1), Time: time.Now(), Run: run, Agent: "clerk", Data: data})
	}
}

func noise(r *rand.ChaCha8, n int) string {
	b := make([]byte, n*3/4)
	_, _ = r.Read(b) // never fails
	return fmt.Sprintf("%x", b)[:n]
}

// readContents reads all content of a directory, and returns the digest of each piece
// by its name, and the errors.
func readContents(ctx context.Context, d *datadir.Dir, dir string) (shown map[string]string, errs map[string]error) {
	shown, errs = map[string]string{}, map[string]error{}
	put := func(what string, v any, err error) {
		raw, encodeErr := json.Marshal(v)
		if err = errors.Join(err, encodeErr); err != nil {
			errs[what] = err
			return
		}
		sum := sha256.Sum256(raw)
		shown[what] = fmt.Sprintf("%x", sum[:8])
	}
	store := threads.New(d.Driver, nil)
	for _, tenant := range damageTenants {
		tn := store.For(tenant)
		page, err := tn.List(ctx, nil)
		put(tenant+" list", page, err)
		for life := range 3 {
			id := fmt.Sprintf("thread-%d", life)
			name := tenant + " " + id
			info, err := tn.Thread(ctx, id)
			put(name, info, err)
			loaded, err := store.Get(ctx, &host.HistoryRequest{Tenant: tenant, Thread: id})
			put(name+" loaded", loaded, err)
			n := 0
			for m, err := range tn.Messages(ctx, id, threads.At{}) {
				put(fmt.Sprintf("%s message %d", name, n), m, err)
				n++
			}
			for i := range damageTurns {
				snap, err := tn.Snapshot(ctx, id, fmt.Sprintf("run-%d-%d", life, i))
				put(fmt.Sprintf("%s turn %d", name, i), snap, err)
			}
			list, err := tn.Artifacts(ctx, id)
			put(name+" artifacts", list, err)
			for _, info := range list {
				content, err := tn.Artifact(ctx, id, info.Digest)
				put(name+" artifact "+info.Digest, content, err)
			}
			digest := uploadDigest(tenant, life)
			content, err := readUpload(ctx, tn, id, digest)
			put(name+" upload", content, err)
			run, err := readTrace(d, dir, tenant, fmt.Sprintf("run-%d", life))
			put(name+" trace", run, err)
		}
	}
	return shown, errs
}

// uploadDigest returns the digest of the upload that fillLife stores.
func uploadDigest(tenant string, life int) string {
	seed := [32]byte{byte(life), byte(slices.Index(damageTenants, tenant))}
	random := rand.NewChaCha8(seed)
	for i := range damageTurns {
		noise(random, damageText)
		noise(random, damageText)
		if i%4 == 0 {
			noise(random, 160<<10)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(noise(random, threads.ChunkBytes+10_000))))
}

func readUpload(ctx context.Context, tn *threads.Tenant, id, digest string) ([]byte, error) {
	r, _, err := tn.OpenUpload(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// errTrace is the error of a trace that is damaged or that is not kept: a log keeps
// the last runs only, so a missing trace is no damage.
var errTrace = errors.New("the trace is damaged or incomplete")

func readTrace(d *datadir.Dir, dir, tenant, run string) (*trace.Run, error) {
	opts := &trace.ReadOptions{Tenant: tenant, Keys: d.Badger().Keys()}
	got, err := trace.Read(datadir.TracesPath(dir), run, opts)
	if err == nil && (got.Damaged > 0 || !got.Finished) {
		err = errTrace
	}
	if err != nil {
		return nil, errors.Join(errTrace, err)
	}
	return got, nil
}

// openDamaged opens a damaged directory, compares all content, has Verify find what the
// reads report, and writes a new turn.
func openDamaged(t *testing.T, dir string, c filedamage.Case) (outcome, reason string) {
	d, err := datadir.Open(t.Context(), dir, damageOptions(c))
	if err != nil {
		switch host.CodeOf(err) {
		case host.DataLoss, host.FailedPrecondition:
			return "refused", err.Error()
		}
		return "untyped", err.Error()
	}
	found, err := compareContents(t.Context(), d, dir)
	if err == nil && found != "" {
		err = verifyFinds(t.Context(), d, found)
	}
	if err == nil {
		err = writeMore(t.Context(), d)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return "bad", err.Error()
	}
	if found != "" {
		return "found", found
	}
	return "whole", ""
}

// compareContents returns what the reads of damaged content report, and an error for
// content that was not reported and is not as it was stored.
func compareContents(ctx context.Context, d *datadir.Dir, dir string) (found string, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, contentsName))
	if err != nil {
		return "", err
	}
	var want map[string]string
	if err := json.Unmarshal(raw, &want); err != nil {
		return "", err
	}
	got, errs := readContents(ctx, d, dir)
	for what, err := range errs {
		if code := host.CodeOf(err); code != host.DataLoss && !errors.Is(err, errTrace) {
			return "", fmt.Errorf("%s: %w, want code data_loss", what, err)
		}
		if found == "" || errors.Is(errs[found], errTrace) {
			found = what
		}
	}
	for what, digest := range want {
		name, _, _ := strings.Cut(what, " message")
		_, unread := errs[what]
		behind := func(e string) bool {
			return strings.HasPrefix(e, name+" message") || e == name+" artifacts" || e == name
		}
		switch {
		case got[what] == digest, unread:
		case got[what] != "":
			return "", fmt.Errorf("%s is changed", what)
		case !slices.ContainsFunc(slices.Collect(keysOf(errs)), behind):
			return "", fmt.Errorf("%s is missing", what)
		}
	}
	if found != "" {
		found += ": " + errs[found].Error()
	}
	return found, nil
}

func keysOf(errs map[string]error) func(func(string) bool) {
	return func(yield func(string) bool) {
		for what := range errs {
			if !yield(what) {
				return
			}
		}
	}
}

// verifyFinds returns an error if Verify finds nothing where reads report damage, but
// for traces, which are no part of the store.
func verifyFinds(ctx context.Context, d *datadir.Dir, found string) error {
	if strings.Contains(found, errTrace.Error()) {
		return nil
	}
	v, err := d.Verify(ctx, func(int) {})
	if err == nil && len(v.Damaged) == 0 {
		err = fmt.Errorf("verify finds nothing, a read reports: %s", found)
	}
	return err
}

// writeMore stores a message in a new thread and reads it back.
func writeMore(ctx context.Context, d *datadir.Dir) error {
	store := threads.New(d.Driver, nil)
	req := &host.HistoryRequest{Tenant: "acme", Thread: "new", Run: "new", Input: host.UserText("what next?")}
	if _, err := store.AppendUserMessage(ctx, req); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	loaded, err := store.Get(ctx, req)
	if err != nil {
		return fmt.Errorf("read the new message: %w", err)
	}
	var texts bytes.Buffer
	for _, m := range loaded.Messages {
		texts.WriteString(m.Text())
	}
	if texts.String() != "what next?" {
		return fmt.Errorf("the new thread has %q", texts.String())
	}
	return nil
}
