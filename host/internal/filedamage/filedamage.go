// Package filedamage is a kit for tests of storage: it damages copies of a directory at
// random, and has a process of its own open each of them.
//
// A test calls [Run], which starts the test's binary again: once per base directory to
// fill it, and once to open all damaged copies of it, so that a process that ends is a
// failed damage and not a failed test. The directory opens with everything in it
// ("whole"), opens and reports the damaged content by an error ("found"), or is refused
// with no file changed ("refused"). Anything else fails the test.
package filedamage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agenthost/agenthost/internal/longtest"
)

// Variable is the environment variable that sets how many damages a test tries, over
// all of its base directories.
const Variable = "AGENTHOST_TEST_DAMAGES"

const (
	childVariable = "AGENTHOST_TEST_DAMAGE_CHILD" // fill or open
	caseVariable  = "AGENTHOST_TEST_DAMAGE_CASE"
	dirVariable   = "AGENTHOST_TEST_DAMAGE_DIR"
)

// Case is a base directory of a test.
type Case struct {
	Encrypted bool
	Killed    bool // the process that filled the directory was killed
}

func (c Case) String() string { return fmt.Sprintf("encrypted=%t/killed=%t", c.Encrypted, c.Killed) }

// Cases are all cases of a test.
func Cases() []Case {
	return []Case{{}, {Killed: true}, {Encrypted: true}, {Encrypted: true, Killed: true}}
}

// Test is a test of random damages.
type Test struct {
	// Fill fills a directory, in a process of its own, and returns when it may be
	// killed, with a function that closes the directory.
	Fill func(t *testing.T, dir string, c Case) (closeAll func() error)
	// Open opens a damaged copy of a directory that Fill has filled and reads all of
	// it, in a process of its own. It returns an outcome and the reason: "whole",
	// "found" or "refused"; any other outcome fails the test.
	Open func(t *testing.T, dir string, c Case) (outcome, reason string)
	// Candidates returns the files of a directory that may be damaged, below it. Each
	// of them is as likely as another.
	Candidates func(r *rand.Rand, files []string) []string
	// Default is how many damages are tried where [Variable] does not say so; a quarter
	// of it in tests that are not long.
	Default int
}

// Run runs a test of random damages, or what a process does that it has started.
func Run(t *testing.T, test *Test) {
	if child := os.Getenv(childVariable); child != "" {
		test.runChild(t, child)
		return
	}
	runs, cases := test.runs(t), Cases()
	for i, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			Fill(t, topLevel(t), base, c)
			test.tryDamages(t, base, c, (runs+i)/len(cases), rand.New(rand.NewPCG(2, uint64(i))))
		})
	}
}

func (test *Test) runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv(Variable)
	switch runs, err := strconv.Atoi(text); {
	case text != "" && err != nil:
		t.Fatalf("%s: %v", Variable, err)
		return 0
	case text != "":
		return runs
	case !longtest.Enabled():
		return test.Default / 4
	}
	return test.Default
}

func (test *Test) runChild(t *testing.T, child string) {
	t.Helper()
	var c Case
	for _, possible := range Cases() {
		if possible.String() == os.Getenv(caseVariable) {
			c = possible
		}
	}
	if child == "fill" {
		closeAll := test.Fill(t, os.Getenv(dirVariable), c)
		waitForInventories(t, os.Getenv(dirVariable))
		fmt.Println("filled")
		_, _ = io.Copy(io.Discard, os.Stdin)
		if err := closeAll(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for dirs := bufio.NewScanner(os.Stdin); dirs.Scan(); {
		outcome, reason := test.Open(t, dirs.Text(), c)
		fmt.Println("answer", outcome, strings.ReplaceAll(reason, "\n", " "))
	}
}

// waitForInventories waits until the inventories of the open stores below a directory name
// their newest logs, as they do within a second: before that, Open cannot miss the log.
func waitForInventories(t *testing.T, dir string) {
	t.Helper()
	eachFile(t, dir, func(name string, _ fs.FileInfo) {
		if filepath.Base(name) != "INVENTORY" {
			return
		}
		path := filepath.Join(dir, name)
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			logs, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.mem"))
			if err != nil {
				t.Fatal(err)
			}
			inventory, err := os.ReadFile(path)
			if len(logs) == 0 || err == nil && bytes.Contains(inventory, []byte(filepath.Base(slices.Max(logs)))) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("%s does not name %s", name, slices.Max(logs))
			}
		}
	})
}

// process is a process of the test's binary.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	lines  *bufio.Scanner
	stderr bytes.Buffer
}

func start(t *testing.T, testName, child, dir string, c Case) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+testName+"$", "-test.timeout", "0")}
	p.cmd.Env = append(os.Environ(), childVariable+"="+child, caseVariable+"="+c.String(), dirVariable+"="+dir)
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(p.out)
	p.lines.Buffer(nil, 1<<20)
	return p
}

// end waits for the end of a process.
func (p *process) end() error {
	_ = p.in.Close()
	_, _ = io.Copy(io.Discard, p.out)
	return p.cmd.Wait()
}

// topLevel returns the name of the test function, without those of its subtests.
func topLevel(t *testing.T) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// Fill fills a directory as [Run] does. The test function of that name calls Run.
func Fill(t *testing.T, testName, dir string, c Case) {
	t.Helper()
	p := start(t, testName, "fill", dir, c)
	var said []string
	for p.lines.Scan() && p.lines.Text() != "filled" {
		said = append(said, p.lines.Text())
	}
	if c.Killed {
		_ = p.cmd.Process.Kill()
	}
	if err := p.end(); (err != nil) != c.Killed {
		t.Fatalf("the process that fills the directory: %v: %s %s", err, strings.Join(said, "\n"), p.stderr.String())
	}
}

// tryDamages damages copies of a directory, each in one way, and lets one process open
// them in a row.
func (test *Test) tryDamages(t *testing.T, base string, c Case, runs int, random *rand.Rand) {
	t.Helper()
	p := start(t, topLevel(t), "open", "", c)
	dir := filepath.Join(t.TempDir(), "copy")
	outcomes := make(map[string]int)
	for n := range runs {
		CopySparse(t, base, dir)
		what := DamageOne(t, random, dir, test.Candidates)
		before := Digests(t, dir)
		fmt.Fprintln(p.in, dir)
		answer := ""
		for p.lines.Scan() {
			if after, ok := strings.CutPrefix(p.lines.Text(), "answer "); ok {
				answer = after
				break
			}
		}
		outcome, text, _ := strings.Cut(answer, " ")
		outcomes[outcome]++
		switch outcome {
		case "whole", "found":
			t.Logf("damage %d, %s: %s %s", n, what, outcome, text)
		case "refused":
			if after := Digests(t, dir); !maps.Equal(after, before) {
				t.Errorf("damage %d, %s: refused with %s, and the files have changed", n, what, text)
			}
		case "":
			err := p.end()
			t.Fatalf("damage %d, %s: the process ended: %v: %.2000s", n, what, err, p.stderr.String())
		default:
			t.Errorf("damage %d, %s: %s", n, what, answer)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(); err != nil {
		t.Errorf("the process that opens directories: %v: %s", err, p.stderr.String())
	}
	t.Logf("%d damages: %v", runs, outcomes)
	if runs >= 5 && outcomes["refused"] == 0 {
		t.Error("no damage was found")
	}
}

// DamageOne damages one file below a directory, or exchanges two: it cuts a file, flips
// one of its bits, or removes it.
func DamageOne(t *testing.T, r *rand.Rand, dir string, candidates func(*rand.Rand, []string) []string) string {
	t.Helper()
	var files []string
	eachFile(t, dir, func(name string, _ fs.FileInfo) { files = append(files, name) })
	if candidates != nil {
		files = candidates(r, files)
	}
	name := files[r.IntN(len(files))]
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	size := max(info.Size(), 1)
	switch kind := r.IntN(5); kind {
	case 0:
		to := r.Int64N(size)
		if r.IntN(2) == 0 {
			to = r.Int64N(min(size, 64))
		}
		if err := os.Truncate(path, to); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s cut to %d of %d", name, to, size)
	case 1, 2:
		at := r.Int64N(size)
		if kind == 2 {
			at = r.Int64N(min(size, 4096))
		}
		flip(t, r, path, at)
		return fmt.Sprintf("%s flipped at %d of %d", name, at, size)
	case 3:
		other := files[r.IntN(len(files))]
		exchange(t, path, filepath.Join(dir, other))
		return fmt.Sprintf("%s exchanged with %s", name, other)
	default:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return name + " missing"
	}
}

func flip(t *testing.T, r *rand.Rand, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	if err == nil {
		b[0] ^= 1 << r.IntN(8)
		_, err = f.WriteAt(b[:], at)
	}
	if err := errors.Join(err, f.Close()); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func exchange(t *testing.T, path, other string) {
	t.Helper()
	if path == other {
		return
	}
	for _, move := range [][2]string{{path, path + ".x"}, {other, path}, {path + ".x", other}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// eachFile calls fn with the regular files below a directory, but for Badger's lock.
func eachFile(t *testing.T, dir string, fn func(name string, info fs.FileInfo)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "LOCK" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fn(name, info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// seed is that of all digests of the process.
var seed = maphash.MakeSeed()

// Digests returns a digest of each file below a directory, but for the lock. Only those of
// one process can be compared.
func Digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	var h maphash.Hash
	h.SetSeed(seed)
	eachFile(t, dir, func(name string, info fs.FileInfo) {
		h.Reset()
		eachData(t, filepath.Join(dir, name), func(at int64, b []byte) {
			fmt.Fprintln(&h, at)
			_, _ = h.Write(b)
		})
		sums[name] = fmt.Sprintf("%x %d", h.Sum64(), info.Size())
	})
	return sums
}

// CopySparse copies the files below a directory without their holes, which are most of
// what Badger allocates.
func CopySparse(t *testing.T, from, to string) {
	t.Helper()
	made := map[string]bool{}
	makeDir := func(dir string) {
		if made[dir] {
			return
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		made[dir] = true
	}
	makeDir(to)
	eachFile(t, from, func(name string, info fs.FileInfo) {
		makeDir(filepath.Dir(filepath.Join(to, name)))
		f, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		eachData(t, filepath.Join(from, name), func(at int64, b []byte) {
			if _, err := f.WriteAt(b, at); err != nil {
				t.Fatal(err)
			}
		})
		if err := errors.Join(f.Truncate(info.Size()), f.Close(), os.Chtimes(f.Name(), info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
	})
}

// eachData calls fn with the parts of a file that are no holes.
func eachData(t *testing.T, path string, fn func(at int64, b []byte)) {
	t.Helper()
	const seekData, seekHole = 3, 4 // of Linux
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for end := int64(0); ; {
		at, err := f.Seek(end, seekData)
		if err != nil {
			return // no data behind end
		}
		if end, err = f.Seek(at, seekHole); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, end-at)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		fn(at, b)
	}
}

// OneOf leaves one of the files below a directory, so that many alike are damaged no
// more often than the others.
func OneOf(r *rand.Rand, files []string, below string) []string {
	prefix := below + string(filepath.Separator)
	var many []string
	rest := slices.DeleteFunc(slices.Clone(files), func(name string) bool {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
		many = append(many, name)
		return true
	})
	if len(many) > 0 {
		rest = append(rest, many[r.IntN(len(many))])
	}
	return rest
}
