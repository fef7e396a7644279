package project_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/project"
)

func loadInMemory(t *testing.T) *project.Project {
	t.Helper()
	p, err := project.Load(t.Context(), "shop", &project.Options{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestATenantIsErasedFromMemory(t *testing.T) {
	p := loadInMemory(t)
	if _, err := p.Run(t.Context(), &host.Request{Tenant: "acme", Thread: "t1", Text: "hi"}); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || r.Gone {
		t.Errorf("Prove before = %+v, %v", r, err)
	}
	if err := p.Erasures().Delete(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Erasures().Prove(t.Context(), "acme"); err != nil || !r.Gone {
		t.Errorf("Prove after = %+v, %v", r, err)
	}
}

func TestRunOfNoRequestIsAnError(t *testing.T) {
	if _, err := loadInMemory(t).Run(t.Context(), nil); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("Run(nil) = %v, want invalid_argument", err)
	}
}

func TestThereIsNoUnknownPlugin(t *testing.T) {
	if p := loadInMemory(t).Plugin("nosuch"); p != nil {
		t.Errorf("Plugin = %v, want nil", p)
	}
}
