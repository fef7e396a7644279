//go:build unix

package soak

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// The environment variables of the tests.
const (
	killsVariable = "AGENTHOST_SOAK_KILLS" // how many kills and pauses end a test
	timeVariable  = "AGENTHOST_SOAK_TIME"  // the time that ends it, such as 10m, if that comes first
	seedVariable  = "AGENTHOST_SOAK_SEED"  // the seed of the faults
)

// TestHostProcess is a host, if it is started as one.
func TestHostProcess(t *testing.T) {
	if !IsHost() {
		t.Skip("the process is no host of another test")
	}
	if err := Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// number returns the number in an environment variable.
func number(t *testing.T, variable string) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number", variable, text)
	}
	return n
}

// ci runs .ci/postgres, which starts servers for tests.
func ci(verb, dir string) (string, error) {
	cmd := exec.Command("../../.ci/postgres", verb, dir) // tests run in the directory of their package
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func soakFor(t *testing.T, opts *Options) {
	t.Helper()
	opts.Command = exec.Command(os.Args[0], "-test.run=^TestHostProcess$")
	opts.Lease, opts.Every, opts.Logf = time.Second, 300*time.Millisecond, t.Logf
	opts.Seed = uint64(number(t, seedVariable))
	if opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	opts.Duration = time.Duration(longtest.Rounds(6, 60)) * time.Second
	if opts.Faults = number(t, killsVariable); opts.Faults > 0 {
		opts.Duration = time.Duration(opts.Faults) * 2 * time.Second
	}
	if text := os.Getenv(timeVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			t.Fatalf("%s=%q is not a duration", timeVariable, text)
		}
		opts.Duration = d
	}
	t.Logf("the faults' seed is %d: set %s to have them again", opts.Seed, seedVariable)
	figures, report, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d kills, %d pauses, %d cuts, %d crashes of the database", figures.Elapsed.Round(time.Second), figures.Kills, figures.Pauses, figures.Cuts, figures.Crashes)
	t.Log(report)
	for _, lines := range [][]string{report.Lost, report.Doubled, report.OutOfOrder} {
		for _, line := range lines {
			t.Error(line)
		}
	}
	if figures.Total() == 0 || report.Acked < figures.Total() {
		t.Errorf("%d turns were acknowledged in %d faults: too few to say anything", report.Acked, figures.Total())
	}
}

func TestSoak(t *testing.T) {
	pgkvtest.Server(t)                       // skips where no server may be started
	dir, err := os.MkdirTemp("/tmp", "soak") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := ci("stop", dir); err != nil {
			t.Error(err)
		}
	})
	address, err := ci("start", dir)
	if err != nil {
		t.Fatal(err)
	}
	soakFor(t, &Options{
		Store: address, Hosts: 3, Clients: 12,
		Cut: func() error { return cut(t.Context(), address) },
		Crash: func() error {
			_, err := ci("crash", dir)
			return err
		},
	})
}

// cut ends about half of the connections to a database.
func cut(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
		where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.5`)
	return err
}

func TestSoakOfOneHostOnBadger(t *testing.T) {
	soakFor(t, &Options{Store: t.TempDir(), Hosts: 1, Clients: 6})
}
