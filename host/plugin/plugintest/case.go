package plugintest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/fault"
	"github.com/agenthost/agenthost/host/llm"
	"github.com/agenthost/agenthost/host/plugin"
)

// Golden cases. [Check] describes their form.

// maxCaseBytes bounds a file of a case.
const maxCaseBytes = 16 << 20

// goldenCase is a case of a directory.
type goldenCase struct {
	name  string
	path  string // of the archive or the directory
	whole *txtar.Archive
	call  Call
	want  caseEnd
	ops   []operation
	tools *Tools // that the plugin's tool calls; nil: those calls are operations like others
}

// Case is a golden case whose host answers a plugin that another program calls.
type Case struct {
	Call
	golden *goldenCase
}

// ReadCase reads a case; [Check] describes its form.
func ReadCase(path string) (*Case, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, host.Errorf(host.NotFound, "there is no case %s", path).WithHint("name a file NAME.txtar or a directory")
	}
	read := readArchive
	if info.IsDir() {
		read = readCaseDir
	}
	archive, err := read(path)
	var c *goldenCase
	if err == nil {
		c, err = newCase(path, archive)
	}
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "read case %s: %w", path, err)
	}
	return &Case{c.call, c}, nil
}

// Operate returns what answers the host operations of one call, for [plugin.CallOptions]: those of the
// case in their order. Any other fails with code failed_precondition.
func (c *Case) Operate() func(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
	r := newReplay(c.golden)
	return func(ctx context.Context, op string, request []byte, next plugin.Operation) ([]byte, error) {
		response, err := r.answer(ctx, op, request, next)
		if n := len(r.problems); n > 0 {
			return nil, host.Errorf(host.FailedPrecondition, "case %s: %s", c.golden.path, r.problems[n-1])
		}
		return response, err
	}
}

// caseEnd is the outcome of a call. One of both fields is set.
type caseEnd struct {
	output json.RawMessage
	err    json.RawMessage
}

// operation is a host operation in a case.
type operation struct {
	Op       string          `json:"op"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response,omitempty"`
	Error    *host.Error     `json:"error,omitempty"`
}

const (
	outputSection     = "output.json"
	errorSection      = "error.json"
	operationsSection = "operations.json"
	toolsSection      = "tools.json"
)

// readCases reads the cases of a directory, by name.
func readCases(dir string) ([]*goldenCase, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "there is no directory %s", dir).WithHint("name the directory of the plugin's cases")
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read cases: %w", err)
	}
	var cases []*goldenCase
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		var archive *txtar.Archive
		switch {
		case strings.HasPrefix(e.Name(), "."):
			continue
		case e.IsDir():
			archive, err = readCaseDir(path)
		case strings.HasSuffix(e.Name(), ".txtar"):
			archive, err = readArchive(path)
		default:
			continue
		}
		var c *goldenCase
		if err == nil {
			c, err = newCase(path, archive)
		}
		if err != nil {
			return nil, host.Errorf(host.InvalidArgument, "read case %s: %w", path, err)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, host.Errorf(host.NotFound, "there is no case in %s", dir).
			WithHint("a case is a file NAME.txtar or a directory NAME with an input, such as tool.json")
	}
	return cases, nil
}

func readArchive(path string) (*txtar.Archive, error) {
	b, err := readCaseFile(path)
	if err != nil {
		return nil, err
	}
	return txtar.Parse(b), nil
}

// readCaseDir reads the files of a directory as the sections of an archive.
func readCaseDir(dir string) (*txtar.Archive, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	a := &txtar.Archive{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		b, err := readCaseFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		a.Files = append(a.Files, txtar.File{Name: e.Name(), Data: b})
	}
	return a, nil
}

func readCaseFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxCaseBytes {
		err = fmt.Errorf("%s is %d bytes, more than %d", path, info.Size(), maxCaseBytes)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func newCase(path string, a *txtar.Archive) (*goldenCase, error) {
	c := &goldenCase{name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, whole: a}
	for _, f := range a.Files {
		if err := c.section(f.Name, bytes.TrimSpace(f.Data)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	switch {
	case c.call.Export == "":
		return nil, fmt.Errorf("it has no input; name one tool.json, process.json, route.json, provide.json or observe.json")
	case c.want.output != nil && c.want.err != nil:
		return nil, fmt.Errorf("it has both %s and %s", outputSection, errorSection)
	}
	return c, nil
}

func (c *goldenCase) section(name string, data []byte) error {
	switch name {
	case outputSection:
		c.want.output = data
	case errorSection:
		c.want.err = data
		return hasCode(data)
	case operationsSection:
		return c.readOperations(data)
	case toolsSection:
		tools, err := ReadTools(data)
		c.tools = tools
		return err
	default:
		export, ok := strings.CutSuffix(name, ".json")
		if _, known := callable[export]; !ok || !known {
			return fmt.Errorf("a case has no such section")
		}
		if c.call.Export != "" {
			return fmt.Errorf("the case has an input already, for %s", c.call.Export)
		}
		c.call = Call{export, string(data)}
	}
	return nil
}

// hasCode refuses a wanted error without a code, which would match any error.
func hasCode(raw []byte) error {
	var code host.Code
	m, err := members(string(raw))
	switch {
	case err != nil:
		return err
	case json.Unmarshal(m["code"], &code) != nil || !code.Valid():
		return fmt.Errorf("its code is %.100s; an error that is wanted has a code of pdk/ABI.md", m["code"])
	}
	return nil
}

// readOperations reads the recorded operations. It refuses unknown members: a misspelt
// response would answer the plugin with nothing.
func (c *goldenCase) readOperations(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c.ops); err != nil || d.More() {
		return cmp.Or(err, errors.New("there is more after the operations"))
	}
	for i, o := range c.ops {
		if o.Op == "" || o.Request == nil || (o.Response == nil) == (o.Error == nil) {
			return fmt.Errorf("operation %d needs an op, a request, and a response or an error", i+1)
		}
	}
	return nil
}

// check makes the call and returns how its outcome differs from the case. With update it
// rewrites the case instead.
func (c *goldenCase) check(g *guest, update bool) []string {
	r := newReplay(c)
	operate := r.answer
	if update {
		operate = r.record
	}
	got, err := c.run(g, operate)
	if update && g.sandbox.ctx.Err() != nil {
		return problem(g.sandbox.ctx.Err()) // not an outcome of the case
	}
	if update {
		r.endOfTools()
		r.problems = append(r.problems, problem(c.write(got, err, r.asked))...)
		return r.problems
	}
	r.end()
	r.problems = append(r.problems, c.compare(got, err)...)
	if err == nil {
		r.problems = append(r.problems, problem(g.answer(c.call, got))...)
	}
	return r.problems
}

func (c *goldenCase) run(g *guest, operate func(context.Context, string, []byte, plugin.Operation) ([]byte, error)) (*plugin.CallResult, error) {
	p, err := g.sandbox.runtime.Load(g.sandbox.ctx, "case", g.sandbox.wasm, &g.sandbox.options)
	if err != nil {
		return &plugin.CallResult{}, err
	}
	defer p.Close()
	state, err := c.state()
	if err != nil {
		return &plugin.CallResult{}, err
	}
	return p.Call(g.sandbox.ctx, tenant, c.call.Export, []byte(c.call.Input), &plugin.CallOptions{
		State: state, View: c.view(), Operate: operate})
}

// state returns the state for recorded operations: the state in the input.
func (c *goldenCase) state() (*host.State, error) {
	m, err := members(c.call.Input)
	if err != nil || m["state"] == nil {
		return host.NewState(nil, 0)
	}
	return host.NewState(m["state"], 0)
}

// view returns the view for recorded operations: the conversation in the input, or nil.
func (c *goldenCase) view() *host.View {
	list, err := conversation(c.call)
	if err != nil || len(list) == 0 {
		return nil
	}
	return llm.NewView(list, "m", nil)
}

// compare returns how the outcome of a call differs from the wanted one.
func (c *goldenCase) compare(got *plugin.CallResult, err error) []string {
	failed := failure(got, err)
	switch {
	case c.want.output == nil && c.want.err == nil:
		return []string{fmt.Sprintf("the case has neither %s nor %s; it answers %s", outputSection, errorSection, shown(got, err))}
	case c.want.err != nil && failed == nil:
		return []string{fmt.Sprintf("it answers %s, want the error %s", shown(got, nil), c.want.err)}
	case c.want.err != nil:
		return diffError(c.want.err, failed)
	case failed != nil:
		return []string{fmt.Sprintf("it fails: %s", failed)}
	}
	return diffJSON(c.want.output, got.Output)
}

// failure returns the error object of a failed call, the guest's or the host's.
func failure(got *plugin.CallResult, err error) json.RawMessage {
	switch {
	case err == nil && got.GuestError:
		return got.Output
	case err == nil:
		return nil
	}
	b, _ := json.Marshal(fault.AsError(err)) // of strings and a boolean
	return b
}

// diffError compares the members of an error that the case names.
func diffError(want, got json.RawMessage) []string {
	w, err := members(string(want))
	if err != nil {
		return []string{err.Error()}
	}
	g, err := members(string(got))
	if err != nil {
		return []string{fmt.Sprintf("the error is not an object: %.200s", got)}
	}
	for name := range g {
		if _, named := w[name]; !named {
			delete(g, name)
		}
	}
	some, err := json.Marshal(g)
	if err != nil {
		return []string{err.Error()}
	}
	return diffJSON(want, some)
}

// write stores the outcome of a call, and the operations that it called.
func (c *goldenCase) write(got *plugin.CallResult, err error, asked []operation) error {
	c.drop(outputSection, errorSection, operationsSection)
	if len(asked) > 0 {
		b, err := json.MarshalIndent(asked, "", "  ")
		if err != nil {
			return err
		}
		c.add(operationsSection, b)
	}
	if failed := failure(got, err); failed != nil {
		c.add(errorSection, failed)
	} else {
		c.add(outputSection, got.Output)
	}
	if info, err := os.Stat(c.path); err != nil || !info.IsDir() {
		return os.WriteFile(c.path, txtar.Format(c.whole), 0o644)
	}
	return c.writeDir()
}

func (c *goldenCase) writeDir() error {
	for _, name := range []string{outputSection, errorSection, operationsSection} {
		if err := os.Remove(filepath.Join(c.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, f := range c.whole.Files {
		if err := os.WriteFile(filepath.Join(c.path, f.Name), f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *goldenCase) drop(names ...string) {
	c.whole.Files = slices.DeleteFunc(c.whole.Files, func(f txtar.File) bool { return slices.Contains(names, f.Name) })
}

func (c *goldenCase) add(name string, data []byte) {
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		b.Reset()
		b.Write(data) // not JSON: the diff shows it
	}
	c.whole.Files = append(c.whole.Files, txtar.File{Name: name, Data: append(b.Bytes(), '\n')})
}

func problem(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}
