package pgkv

import "context"

// OtherBackends returns the number of the server's processes for other stores of the
// same application_name.
func OtherBackends(s *Store) (n int, err error) {
	conn, err := s.pool.Acquire(context.Background())
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	err = conn.QueryRow(context.Background(), `select count(*) from pg_stat_activity
		where application_name = current_setting('application_name') and pid <> pg_backend_pid()`).Scan(&n)
	return n, err
}
