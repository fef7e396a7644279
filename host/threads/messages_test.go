package threads_test

import (
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
	"github.com/agenthost/agenthost/host/threads"
	"github.com/agenthost/agenthost/internal/testdriver"
)

func messagesOf(t *testing.T, limit int) (host.MessageStores, error) {
	t.Helper()
	return threads.New(testdriver.New(t), nil).MessageStores(&threads.MessagesOptions{MaxMessages: limit})
}

func TestMessageKit(t *testing.T) {
	hosttest.TestMessageStores(t, func(t *testing.T) host.MessageStores {
		stores, err := messagesOf(t, 0)
		if err != nil {
			t.Fatal(err)
		}
		return stores
	}, &hosttest.MessageStoresOptions{Limited: messagesOf})
}

// A limit is a view: the thread keeps what it has, and is a thread like others.
func TestALimitOfMessagesDeletesNothing(t *testing.T) {
	store := threads.New(testdriver.New(t), nil)
	stores, err := store.MessageStores(&threads.MessagesOptions{MaxMessages: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stores.OpenStore(t.Context(), &host.StoreRequest{Tenant: "acme", Thread: "t1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddMessages(t.Context(), []*host.Message{host.UserText("one"), host.UserText("two")}); err != nil {
		t.Fatal(err)
	}
	if list, err := m.ListMessages(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d messages are listed, %v", len(list), err)
	}
	if thread, err := store.For("acme").Thread(t.Context(), "t1"); err != nil || thread.Messages != 2 || thread.Title != "one" {
		t.Errorf("the thread is %+v, %v", thread, err)
	}
}
