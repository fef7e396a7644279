package doctorcmd

import (
	"context"
	"errors"
	"fmt"
	goversion "go/version"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/control"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/open"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/kv"
	"github.com/agenthost/agenthost/host/project"
	"github.com/agenthost/agenthost/internal/termtext"
)

// The timeouts of checks that may hang.
const (
	toolTime    = 10 * time.Second
	networkTime = 5 * time.Second
)

type doctorFlags struct {
	data    cli.DataFlag
	project string
	server  serverFlags
	json    bool
}

// New returns the command. version is the program's.
func New(t *ui.Terminal, plugins *open.Plugins, dirs *open.Data, getenv func(string) string, version string) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "See whether what agenthost needs is there",
		Long: `See whether what agenthost needs is there: the Go toolchain, with which plugins
are built; the cache of compiled code, which must be this user's alone; the data
directory; the servers of models, which are only connected to; the terminal.
The exit code is 0 if nothing is broken, and 3 otherwise.

With the flags of agenthost serve it sees whether a server could serve: the address is
free, the certificate fits its key and has not ended, connections have files to be.
With --running it only asks the host that has --data open whether it takes requests.`,
		Example: `  agenthost doctor --project shop --data ./data
  agenthost doctor --running --data ./data`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return (&checkup{term: t, plugins: plugins, dirs: dirs, getenv: getenv, version: version}).run(c.Context(), f)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().Var(&f.data, "data", cli.DataUsage("the data to look at"))
	c.Flags().StringVar(&f.project, "project", "", "a project to look at")
	c.Flags().StringVar(&f.server.listen, "listen", "", "an address that a server is to listen at, HOST:PORT")
	c.Flags().StringVar(&f.server.certificate, "tls-cert", "", "the file with the certificates of a server, in PEM")
	c.Flags().StringVar(&f.server.key, "tls-key", "", "the file with the key of the certificate, in PEM")
	c.Flags().BoolVar(&f.server.running, "running", false, "ask the running host of --data whether it takes requests, and look at nothing else")
	c.Flags().StringVar(&f.server.socket, "socket", "", control.SocketUsage("the control socket of the running host, if it is elsewhere"))
	c.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	c.Flags().BoolVar(&f.json, "json", false, cli.JSONUsage)
	return c
}

// finding is doctor's report on one thing.
type finding struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, note or broken
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

// The statuses of a finding.
const (
	fine   = "ok"
	note   = "note"
	broken = "broken"
)

// checkup looks at what agenthost needs, and at what it finds of it.
type checkup struct {
	term    *ui.Terminal
	plugins *open.Plugins
	dirs    *open.Data
	getenv  func(string) string
	version string
}

func (d *checkup) run(ctx context.Context, f doctorFlags) error {
	list := d.checkServer(ctx, &f)
	if !f.server.running {
		list = append(d.checkHost(ctx, &f), list...)
	}
	if f.json {
		if err := ui.PrintItems(d.term.Out, list); err != nil {
			return err
		}
	} else if err := d.printFindings(list); err != nil {
		return err
	}
	for _, item := range list {
		if item.Status == broken {
			return cli.QuietExit(host.FailedPrecondition.ExitCode())
		}
	}
	return nil
}

// checkHost looks at what every host needs.
func (d *checkup) checkHost(ctx context.Context, f *doctorFlags) []finding {
	list := []finding{
		{Name: "agenthost", Status: fine, Text: fmt.Sprintf("%s, %s, %s/%s", d.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		d.checkGo(ctx), d.checkCache("wasm", "compiled plugins"), d.checkCache("build", "built plugins"),
	}
	if f.data.Given() {
		list = append(list, d.checkData(ctx, &f.data))
	}
	var file *project.File
	if f.project != "" {
		var err error
		if file, err = open.ReadProject(f.project); err != nil {
			return append(list, failed("project", err), d.checkTerminal())
		}
		list = append(list, checkCode(file)...)
	}
	list = append(list, d.checkModels(ctx, file)...)
	return append(list, d.checkTerminal())
}

func (d *checkup) printFindings(list []finding) error {
	p := ui.NewPrinter(d.term)
	styles := map[string]string{fine: ui.Cyan, note: ui.Yellow, broken: ui.Red}
	var pairs ui.Pairs
	for _, item := range list {
		pairs.Row(p.Paint(styles[item.Status], fmt.Sprintf("%-6s", item.Status))+"  "+item.Name, termtext.Printable(item.Text))
		if item.Hint != "" {
			pairs.Row("", "→ "+termtext.Printable(item.Hint))
		}
	}
	return pairs.Print(d.term)
}

// failed is the finding of an error.
func failed(name string, err error) finding {
	e := fault.AsError(err)
	return finding{Name: name, Status: broken, Text: strings.ReplaceAll(strings.TrimSuffix(e.Error(), "; "+e.Hint), "\n", " "), Hint: e.Hint}
}

// checkGo finds the toolchain that builds plugins.
func (d *checkup) checkGo(ctx context.Context) finding {
	const name = "go"
	file, err := exec.LookPath("go")
	if err != nil {
		return finding{Name: name, Status: note, Text: "there is no go command, so plugins in Go cannot be built", Hint: "install Go from https://go.dev/dl; built .wasm files work without"}
	}
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "env", "GOVERSION").Output()
	if err != nil {
		return finding{Name: name, Status: broken, Text: fmt.Sprintf("%s does not run: %v", file, err), Hint: "check the installation: go version"}
	}
	found := strings.TrimSpace(string(out))
	if strings.HasPrefix(found, "go") && goversion.Compare(found, open.OldestGo) < 0 {
		return finding{Name: name, Status: broken, Text: fmt.Sprintf("%s at %s is too old to build plugins: they need %s", found, file, open.OldestGo), Hint: "update it from https://go.dev/dl"}
	}
	return finding{Name: name, Status: fine, Text: found + " at " + file}
}

// checkCache checks that a directory of code to be run belongs to this user alone.
func (d *checkup) checkCache(name, what string) finding {
	dir, err := d.plugins.Modules().CacheDir(name)
	if err != nil {
		return failed("cache", err)
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return checkFuture(dir, what)
	case err != nil:
		return failed("cache", host.Errorf(host.FailedPrecondition, "%w", err).WithHint("set AGENTHOST_CACHE to a directory that this user can read"))
	case !info.IsDir():
		return finding{Name: "cache", Status: broken, Text: dir + " is not a directory", Hint: "move it away, or set AGENTHOST_CACHE"}
	case info.Mode().Perm()&0o022 != 0:
		return finding{Name: "cache", Status: broken, Text: dir + " can be written by others, who could have their code run here", Hint: "run: chmod 700 " + termtext.ShellWord(dir)}
	}
	probe, err := os.CreateTemp(dir, ".doctor")
	if err != nil {
		return finding{Name: "cache", Status: note, Text: dir + " cannot be written, so every process compiles plugins again", Hint: "make it writable, or set AGENTHOST_CACHE"}
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return failed("cache", host.Errorf(host.FailedPrecondition, "%w", err))
	}
	n, size := sizeOf(dir)
	return finding{Name: "cache", Status: fine, Text: fmt.Sprintf("%s: %s, %s, %s", dir, what, ui.Plural(n, "file"), ui.ShortBytes(size))}
}

// checkFuture checks that a cache that does not exist can be made: its nearest
// existing parent directory must be writable.
func checkFuture(dir, what string) finding {
	const hint = "make that writable for this user, or set AGENTHOST_CACHE"
	parent := filepath.Dir(dir)
	for {
		info, err := os.Stat(parent)
		if err == nil && !info.IsDir() {
			return finding{Name: "cache", Status: broken, Text: fmt.Sprintf("%s cannot be made: %s is not a directory", dir, parent), Hint: "move it away, or set AGENTHOST_CACHE"}
		}
		if err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	probe, err := os.MkdirTemp(parent, ".doctor")
	if err != nil {
		return finding{Name: "cache", Status: broken, Text: fmt.Sprintf("%s cannot be made: %s cannot be written", dir, parent), Hint: hint}
	}
	if err := os.Remove(probe); err != nil {
		return failed("cache", host.Errorf(host.FailedPrecondition, "%w", err))
	}
	return finding{Name: "cache", Status: fine, Text: fmt.Sprintf("%s: not there yet; it is made for %s", dir, what), Hint: ""}
}

func sizeOf(dir string) (files int, size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // unreadable files are not counted
		}
		if info, err := d.Info(); err == nil {
			files++
			size += info.Size()
		}
		return nil
	})
	return files, size
}

// checkData opens the data. A missing directory is not made.
func (d *checkup) checkData(ctx context.Context, data *cli.DataFlag) finding {
	if data.At().IsDatabase() {
		return d.checkDatabase(ctx, data)
	}
	return d.checkDirectory(ctx, data.At().Dir())
}

// checkDatabase opens a database, reads an entry that it does not have, and measures how
// long that takes. Missing tables are made.
func (d *checkup) checkDatabase(ctx context.Context, data *cli.DataFlag) finding {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	store, err := datadir.Open(ctx, data.Text(), d.dirs.QuietOptions())
	if err != nil {
		return failed("data", err)
	}
	began := time.Now()
	_, err = store.Get(ctx, host.DefaultTenant, kv.NewKey("doctor"))
	took := time.Since(began)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return failed("data", errors.Join(err, store.Close()))
	}
	if err := store.Close(); err != nil {
		return failed("data", err)
	}
	return finding{Name: "data", Status: fine, Text: fmt.Sprintf("%s: reads and writes are possible; one read takes %s", data.At(), ui.ShortTime(int64(took)))}
}

// checkDirectory opens a data directory, or uses it through the host that has it open. A
// missing directory is not made.
func (d *checkup) checkDirectory(ctx context.Context, dir string) finding {
	if _, err := os.Stat(datadir.StorePath(dir)); errors.Is(err, fs.ErrNotExist) {
		return finding{Name: "data", Status: note, Text: "there is no store in " + dir, Hint: "it is made by: agenthost run PROJECT --data " + termtext.ShellWord(dir)}
	}
	driver, err := datadir.OpenShared(ctx, dir, d.dirs.QuietOptions())
	if errors.Is(err, kv.ErrLocked) {
		return finding{Name: "data", Status: note, Text: dir + " is in use by a command that shares it with no other", Hint: "look again when that has ended"}
	}
	if err != nil {
		return failed("data", err)
	}
	use := "nobody else has it open"
	if driver.Badger() == nil {
		use = "a host serves it"
	}
	if err := driver.Close(); err != nil {
		return failed("data", err)
	}
	n, size := sizeOf(dir)
	return finding{Name: "data", Status: fine, Text: fmt.Sprintf("%s: %s, %s, %s", dir, ui.Plural(n, "file"), ui.ShortBytes(size), use)}
}

// checkCode reports whether the code of a project's agents can call tools. There is nothing
// else that it needs: its engine is in this program.
func checkCode(file *project.File) []finding {
	agents := file.CodeAgents()
	if len(agents) == 0 {
		return nil
	}
	text := "code is written by " + strings.Join(agents, ", ")
	if barred := file.CodeBarred(); len(barred) > 0 {
		return []finding{{Name: "code", Status: note, Text: text + ", and calls no tool where " + strings.Join(barred, ", ") + " says so",
			Hint: "add tools: [\"*\"] to a ceiling, and " + project.CodeTool + " to the plugins of tenants"}}
	}
	return []finding{{Name: "code", Status: fine, Text: text}}
}

// checkModels checks that the servers of models can be reached. A nil file has none.
func (d *checkup) checkModels(ctx context.Context, file *project.File) []finding {
	models := project.ModelServers(file, d.getenv)
	if len(models) == 0 {
		return []finding{{"model", note, "no model is configured: answers come from a script",
			"set OPENAI_API_KEY, OPENAI_BASE_URL for a local server, ANTHROPIC_API_KEY or GEMINI_API_KEY"}}
	}
	var list []finding
	for _, m := range models {
		item := d.checkModel(ctx, m)
		item.Name = strings.TrimSpace("model " + m.Name)
		list = append(list, item)
	}
	return list
}

// checkModel connects to a model's server, without asking it for anything.
func (d *checkup) checkModel(ctx context.Context, m project.ModelServer) finding {
	base, keyEnv := m.BaseURL, m.KeyVariable
	if base == "" {
		if d.getenv(keyEnv) == "" {
			return finding{Status: broken, Text: keyEnv + " is not set", Hint: "set it, or give the model a base_url"}
		}
		base = m.DefaultURL
	}
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return finding{Status: broken, Text: fmt.Sprintf("%q is not the address of a server", base), Hint: "it looks like " + m.DefaultURL}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, networkTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return finding{Status: broken, Text: fmt.Sprintf("%s://%s cannot be reached: %v", u.Scheme, u.Host, err), Hint: "is the server running, and is there a network?"}
	}
	_ = conn.Close()
	text := fmt.Sprintf("%s://%s can be reached", u.Scheme, u.Host)
	if d.getenv(keyEnv) == "" {
		text += "; " + keyEnv + " is not set, which a local server may not mind"
	}
	return finding{Status: fine, Text: text}
}

func (d *checkup) checkTerminal() finding {
	out := "stdout is no terminal: no colour"
	if d.term.OutIsTerminal {
		out = "stdout is a terminal, with colour"
		if !d.term.Coloured() {
			out = "stdout is a terminal; NO_COLOR or TERM=dumb takes the colour away"
		}
	}
	in := "stdin is no terminal: prompts are read from it whole"
	if d.term.InIsTerminal {
		in = "stdin is a terminal: run without a prompt is a conversation"
	}
	return finding{Name: "terminal", Status: fine, Text: out + "; " + in}
}
