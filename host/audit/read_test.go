package audit_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/audit"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
)

func TestListFiltersByCursor(t *testing.T) {
	_, l := filled(t, 20)
	for name, c := range map[string]struct {
		f    audit.Filter
		want int
	}{
		"all": {audit.Filter{}, 20}, "tenant": {audit.Filter{Tenant: "t1"}, 7}, "actor": {audit.Filter{Actor: "key/0"}, 10},
		"both": {audit.Filter{Tenant: "t1", Actor: "key/0"}, 3}, "action": {audit.Filter{Action: "other"}, 0},
		"from": {audit.Filter{From: time.Now().Add(time.Hour)}, 0}, "to": {audit.Filter{To: time.Now().Add(-time.Hour)}, 0},
		"another tenant": {audit.Filter{Tenant: "t"}, 0}, "since an hour": {audit.Filter{From: time.Now().Add(-time.Hour)}, 20},
	} {
		f, n, last := c.f, 0, uint64(1000)
		f.Limit = 3
		for pages := 0; ; pages++ {
			page, err := l.List(t.Context(), &f)
			if err != nil || len(page.Entries) > 3 || pages > 20 {
				t.Fatalf("%s: %d entries on page %d, %v", name, len(page.Entries), pages, err)
			}
			for _, e := range page.Entries {
				if n++; e.Seq >= last || e.Time.IsZero() {
					t.Errorf("%s: entry %+v after %d", name, e, last)
				}
				last = e.Seq
			}
			if f.Before = page.Next; f.Before == 0 {
				break
			}
		}
		if n != c.want {
			t.Errorf("%s: %d entries, want %d", name, n, c.want)
		}
	}
	_, err := l.List(t.Context(), &audit.Filter{Limit: 1001})
	wantCode(t, "a large page", err, fault.InvalidArgument)
}

func TestVerifyFindsEachTampering(t *testing.T) {
	const n = 5
	put := func(k kv.Key, v []byte) kv.Write { return kv.Put(k, v) }
	for name, damage := range map[string]func(read func(uint64) []byte) []kv.Write{
		"the first removed": func(func(uint64) []byte) []kv.Write { return []kv.Write{kv.Delete(audit.EntryKey(1))} },
		"one removed":       func(func(uint64) []byte) []kv.Write { return []kv.Write{kv.Delete(audit.EntryKey(3))} },
		"the last removed":  func(func(uint64) []byte) []kv.Write { return []kv.Write{kv.Delete(audit.EntryKey(n))} },
		"the head removed":  func(func(uint64) []byte) []kv.Write { return []kv.Write{kv.Delete(audit.HeadKey)} },
		"two exchanged": func(read func(uint64) []byte) []kv.Write {
			return []kv.Write{put(audit.EntryKey(2), read(3)), put(audit.EntryKey(3), read(2))}
		},
		"one copied":     func(read func(uint64) []byte) []kv.Write { return []kv.Write{put(audit.EntryKey(n+1), read(n))} },
		"one in another": func(read func(uint64) []byte) []kv.Write { return []kv.Write{put(audit.EntryKey(4), read(3))} },
		"the tenant changed": func(read func(uint64) []byte) []kv.Write {
			return []kv.Write{put(audit.EntryKey(3), bytes.Replace(read(3), []byte(`"t2"`), []byte(`"t9"`), 1))}
		},
		"the sum changed": func(read func(uint64) []byte) []kv.Write {
			return []kv.Write{put(audit.EntryKey(3), bytes.Replace(read(3), []byte(`"sum":"`), []byte(`"sum":"00`), 1))}
		},
		"not JSON": func(func(uint64) []byte) []kv.Write { return []kv.Write{put(audit.EntryKey(3), []byte("\x01{"))} },
		"empty":    func(func(uint64) []byte) []kv.Write { return []kv.Write{put(audit.EntryKey(3), nil)} },
	} {
		t.Run(name, func(t *testing.T) {
			d, l := filled(t, n)
			if _, err := l.Verify(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			checked := kv.Checked(d)
			writes := damage(func(seq uint64) []byte {
				e, err := checked.Get(t.Context(), audit.Partition, audit.EntryKey(seq))
				if err != nil {
					t.Fatal(err)
				}
				return e.Value
			})
			if _, err := kv.Apply(t.Context(), checked, kv.Tx{Partition: audit.Partition, Writes: writes}); err != nil {
				t.Fatal(err)
			}
			_, err := audit.New(d).Verify(t.Context())
			wantCode(t, "Verify", err, fault.DataLoss)
		})
	}
}

// TestKnownHeadFindsARewrittenChain: the whole chain is another one, with sums that fit.
func TestKnownHeadFindsARewrittenChain(t *testing.T) {
	_, l := filled(t, 5)
	known, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, other := filled(t, 6)
	if _, err := other.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = other.Verify(t.Context(), known)
	wantCode(t, "Verify with a head of before", err, fault.DataLoss)
	_, short := filled(t, 4)
	_, err = short.Verify(t.Context(), known)
	wantCode(t, "Verify of a shorter chain", err, fault.DataLoss)
	if _, err = l.Verify(t.Context(), known, audit.Head{}); err != nil {
		t.Errorf("the same chain: %v", err)
	}
}

func TestExportContinuesAndIsVerified(t *testing.T) {
	_, l := filled(t, 5)
	var first, second bytes.Buffer
	head, err := l.Export(t.Context(), audit.Head{}, &first)
	if err != nil || head.Seq != 5 || strings.Count(first.String(), "\n") != 5 {
		t.Fatalf("Export = %+v, %v: %s", head, err, &first)
	}
	add(t, l, &audit.Entry{Actor: "a", Action: "b"})
	next, err := l.Export(t.Context(), head, &second)
	if err != nil || next.Seq != 6 || strings.Count(second.String(), "\n") != 1 {
		t.Fatalf("Export = %+v, %v", next, err)
	}
	both := first.String() + second.String()
	if got, err := audit.VerifyExport(audit.Head{}, strings.NewReader(both)); err != nil || got != next {
		t.Errorf("VerifyExport = %+v, %v", got, err)
	}
	lines := strings.SplitAfter(both, "\n")
	for name, text := range map[string]string{
		"a line removed": lines[0] + lines[2], "exchanged": lines[1] + lines[0], "changed": strings.Replace(both, `"t1"`, `"t9"`, 1), "twice": lines[0] + lines[0],
	} {
		_, err := audit.VerifyExport(audit.Head{}, strings.NewReader(text))
		wantCode(t, name, err, fault.DataLoss)
	}
	for _, text := range []string{"x", "{}", `{"v":2}`, strings.Repeat("a", 10_000)} {
		_, err := audit.VerifyExport(audit.Head{}, strings.NewReader(text))
		wantCode(t, fmt.Sprintf("%.20s", text), err, fault.InvalidArgument)
	}
}

// FuzzVerifyExport: a text verifies only as one entry a line, and an export with another
// head only with other entries.
func FuzzVerifyExport(f *testing.F) {
	l := audit.New(kv.NewMemory())
	for range 2 {
		if _, err := l.Append(f.Context(), &audit.Entry{Actor: "a", Action: "b", Tenant: "t"}); err != nil {
			f.Fatal(err)
		}
	}
	var out bytes.Buffer
	head, err := l.Export(f.Context(), audit.Head{}, &out)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(out.String())
	f.Add("{}\n")
	f.Add(strings.Replace(out.String(), `"a"`, `"x"`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := audit.VerifyExport(audit.Head{}, strings.NewReader(text))
		if err != nil {
			if code := fault.CodeOf(err); code != fault.DataLoss && code != fault.InvalidArgument {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
		if text == "" {
			lines = 0
		}
		if got.Seq != uint64(lines) {
			t.Errorf("%d entries in %d lines of %q", got.Seq, lines, text)
		}
		if text == out.String() && got != head {
			t.Errorf("the export has head %+v, and verifies to %+v", head, got)
		}
	})
}
