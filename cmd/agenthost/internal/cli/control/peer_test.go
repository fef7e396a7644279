package control

// Inside: two users need two processes of a superuser.

import "testing"

func TestOtherUsersAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name      string
		peer, own int
		want      bool
	}{
		{"the host's user", 1000, 1000, true},
		{"root", 0, 1000, true},
		{"another user", 1001, 1000, false},
		{"another user of root's host", 1000, 0, false},
	} {
		if got := mayAdminister(tt.peer, tt.own); got != tt.want {
			t.Errorf("%s: mayAdminister(%d, %d) = %t", tt.name, tt.peer, tt.own, got)
		}
	}
}
