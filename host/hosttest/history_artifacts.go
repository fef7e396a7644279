package hosttest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agenthost/agenthost/host"
)

// The rules of TestHistory about artifacts.

func artifactsAreListed(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "artifacts")
	c.wantArtifacts()
	c.make("run1", textArtifact("plan", "first"), textArtifact("", "one"))
	c.make("run2", textArtifact("notes", "some"), textArtifact("plan", "second"), textArtifact("", "one"))
	c.make("run3")
	c.wantArtifacts("plan: second", ": one", "notes: some", ": one")
	(&conversation{abilities: a, t: t, tenant: "globex", thread: "artifacts"}).wantArtifacts()
	(&conversation{abilities: a, t: t, tenant: "acme", thread: "never-made"}).wantArtifacts()
}

func artifactsFollowTheThread(t *testing.T, a *abilities, _ *HistoryOptions) {
	c := a.open(t, "acme", "artifacts-again")
	c.make("run1", textArtifact("plan", "first"))
	c.make("run2", textArtifact("plan", "second"), textArtifact("notes", "some"))
	name, err := a.branch.Branch(t.Context(), c.request("branching", nil), "urun2")
	if err != nil {
		t.Fatalf("Branch: %v", err)
	}
	side := &conversation{abilities: a, t: t, tenant: c.tenant, thread: c.thread, line: name}
	side.wantArtifacts("plan: first")
	side.make("run3", textArtifact("plan", "third"))
	side.wantArtifacts("plan: third")
	c.wantArtifacts("plan: second", "notes: some")
	c.regenerate("run4", "urun2")
	c.wantArtifacts("plan: first")
}

func textArtifact(name, text string) host.Artifact {
	return host.Artifact{Name: name, Parts: []host.Part{&host.Text{Text: text}}}
}

// make stores a turn that makes artifacts.
func (c *conversation) make(run string, artifacts ...host.Artifact) {
	c.t.Helper()
	user := userSays("u"+run, "go")
	turn := turnOf(c.say(run, user), answer("a"+run, "done"))
	turn.Artifacts = artifacts
	c.mustStore(run, user, turn)
}

// wantArtifacts compares the listed artifacts with names and texts.
func (c *conversation) wantArtifacts(want ...string) {
	c.t.Helper()
	refs, err := c.lister.ThreadArtifacts(c.t.Context(), c.request("read", nil))
	if err != nil {
		c.t.Fatalf("ThreadArtifacts: %v", err)
	}
	var got []string
	for _, ref := range refs {
		artifact, err := ref.Open(c.t.Context())
		if err != nil || artifact == nil {
			c.t.Fatalf("Open artifact %q: %v, %v", ref.Name, artifact, err)
		}
		content, _ := artifact.Content()
		got = append(got, fmt.Sprintf("%s: %s", artifact.Name, content))
		if ref.Name != artifact.Name {
			c.t.Errorf("artifact %q is listed as %q", artifact.Name, ref.Name)
		}
		if ref.Digest != "" && ref.Digest != artifact.Digest() {
			c.t.Errorf("artifact %q is listed with the digest %s and has %s", ref.Name, ref.Digest, artifact.Digest())
		}
		if ref.Size < int64(len(content)) {
			c.t.Errorf("artifact %q is listed with %d bytes and has %d", ref.Name, ref.Size, len(content))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("artifacts of thread %q of tenant %q (-want +got):\n%s", c.thread, c.tenant, diff)
	}
}
