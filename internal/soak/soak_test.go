//go:build unix

package soak

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agenthost/agenthost/host/cluster"
	"github.com/agenthost/agenthost/internal/longtest"
	"github.com/agenthost/agenthost/internal/pgkvtest"
)

// The environment variables of the tests.
const (
	killsVariable = "AGENTHOST_SOAK_KILLS" // how many kills and pauses end a test
	timeVariable  = "AGENTHOST_SOAK_TIME"  // the time that ends it, such as 10m, if that comes first
	seedVariable  = "AGENTHOST_SOAK_SEED"  // the seed of the faults
)

// maxUnheard is how many ends may be unheard in a test of fewer than 500 turns: a host that
// is killed after an outage of the database may have several of them to report.
const maxUnheard = 4

// TestHostProcess is a host, if it is started as one.
func TestHostProcess(t *testing.T) {
	if !IsHost() {
		t.Skip("runs only as a child of the tests with several hosts")
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

func soakFor(t *testing.T, opts *Options, duration time.Duration) {
	t.Helper()
	opts.Command = exec.Command(os.Args[0], "-test.run=^TestHostProcess$")
	opts.Every, opts.Logf = 300*opts.Lease/1000, t.Logf
	opts.Seed = uint64(number(t, seedVariable))
	if opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	opts.Duration = duration
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
	t.Logf("%s: %s", figures.Elapsed.Round(time.Second), figures)
	t.Log(report)
	for _, line := range report.Failed {
		t.Log(line)
	}
	for _, line := range report.Unheard {
		t.Log(line)
	}
	// A host that is not killed reports all ends.
	if n := len(report.Unheard); n > maxUnheard*(figures.Kills+figures.Crashes) || n > max(maxUnheard, report.Asked/100) {
		t.Errorf("%d of %d turns have a durable run whose end nobody heard, after %d kills", n, report.Asked, figures.Kills)
	}
	for _, lines := range [][]string{report.Lost, report.Doubled, report.OutOfOrder} {
		for _, line := range lines {
			t.Error(line)
		}
	}
	if figures.Total() == 0 {
		t.Errorf("%d turns were acknowledged, and there was no fault between them", report.Acked)
	}
}

// database starts a server and returns options for hosts that reach it through a proxy.
func database(t *testing.T) *Options {
	t.Helper()
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
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := NewProxy("unix", fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return &Options{
		Store: fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", config.User, proxy.Address(), config.Database),
		Hosts: 3, Clients: 12, Lease: time.Second, Proxy: proxy,
		Cut: func() error { return cut(t.Context(), address) },
		Crash: func() error {
			_, err := ci("crash", dir)
			return err
		},
	}
}

func TestSoak(t *testing.T) {
	t.Parallel() // it waits most of its time
	soakFor(t, database(t), time.Duration(longtest.Rounds(4, 60))*time.Second)
}

// Hosts of a configuration, as a user runs them, have the default lease.
func TestSoakOfProjects(t *testing.T) {
	t.Parallel() // it waits most of its time
	if os.Getenv(timeVariable)+os.Getenv(killsVariable) == "" {
		longtest.Need(t, "a host is dead after five seconds")
	}
	opts := database(t)
	opts.Project, opts.Lease = t.TempDir(), cluster.DefaultLease
	soakFor(t, opts, 10*time.Second)
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
	t.Parallel() // it waits most of its time
	opts := &Options{Store: t.TempDir(), Hosts: 1, Clients: 6, Lease: time.Second}
	soakFor(t, opts, time.Duration(longtest.Rounds(2, 6))*time.Second)
}
