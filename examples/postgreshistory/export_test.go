package postgreshistory

import "time"

// What the tests need of the inside.

// SetRenewEvery has leases renewed more often.
func (s *Store) SetRenewEvery(d time.Duration) { s.renewEvery = d }
