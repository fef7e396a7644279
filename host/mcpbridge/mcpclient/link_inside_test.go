package mcpclient

// Inside the package: which session a link closes is not to be seen from outside, where two
// calls would have to lose one session at the same moment.

import (
	"testing"
	"time"
)

// newTestLink returns a link with a session that was used an hour ago.
func newTestLink() (l *link, s *session) {
	s = &session{ended: make(chan struct{})}
	close(s.ended)
	l = &link{session: s, used: time.Now().Add(-time.Hour)}
	s.closing.Do(func() {}) // there is no connection to close
	return l, s
}

func TestALinkDropsTheSessionThatIsLostAlone(t *testing.T) {
	l, now := newTestLink()
	_, lost := newTestLink()
	if l.drop(lost); l.session != now {
		t.Error("a call that has lost an earlier session drops that of other calls")
	}
	if l.drop(now); l.session != nil {
		t.Error("a lost session stays")
	}
}

func TestAnIdleSessionThatIsUsedMeanwhileStays(t *testing.T) {
	l, s := newTestLink()
	s.users.Add(1) // between the list of idle links and this
	if l.dropIdle(time.Minute) || l.session != s {
		t.Error("a session in use is dropped as idle")
	}
	s.users.Add(-1)
	if l.used = time.Now(); l.dropIdle(time.Minute) || l.session != s {
		t.Error("a session that was used just now is dropped as idle")
	}
	if l.used = time.Now().Add(-time.Hour); !l.dropIdle(time.Minute) || l.session != nil {
		t.Error("an idle session stays")
	}
}
