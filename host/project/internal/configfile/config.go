package configfile

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
	"github.com/agenthost/agenthost/internal/termtext"
)

// FileName is the file that makes a directory a project.
const FileName = "agenthost.yaml"

// maxConfigBytes bounds a configuration file.
const maxConfigBytes = 1 << 20

// Config is agenthost.yaml. Unknown keys are errors.
type Config struct {
	Version  int                  `yaml:"version"`
	Default  string               `yaml:"default"` // the target of "run"
	Model    string               `yaml:"model"`   // for agents that name none
	Models   map[string]Model     `yaml:"models"`
	Plugins  map[string]Plugin    `yaml:"plugins"`
	MCP      map[string]MCPServer `yaml:"mcp"` // servers of the Model Context Protocol
	Agents   map[string]Agent     `yaml:"agents"`
	Networks map[string]Network   `yaml:"networks"`
	Memory   map[string]Memory    `yaml:"memory"`
	History  History              `yaml:"history"`
	Limits   Limits               `yaml:"limits"`
	Approve  []Approval           `yaml:"approve"` // calls that a person must approve

	ToolOptions []ToolOption `yaml:"tool_options"`
	ServeMCP    ServeMCP     `yaml:"serve_mcp"` // what clients of the Model Context Protocol are offered

	Tenant    string            `yaml:"tenant"` // of runs that name none
	Tenants   map[string]Tenant `yaml:"tenants"`
	AnyTenant Tenant            `yaml:"any_tenant"` // for every other tenant
	Ceiling   *Grants           `yaml:"ceiling"`    // the upper bound of all grants; absent: no bound
	Prices    Prices            `yaml:"prices"`     // of models; absent: nothing is priced
	Share     Share             `yaml:"share"`      // registries of plugins, and which are trusted

	Fsys fs.FS  // where paths are looked up; nil is the operating system's
	dir  string // of the file
	Name string // of the file, for errors
	Text []byte
}

type Model struct {
	Provider string   `yaml:"provider"` // scripted, openai, responses, anthropic or gemini
	Name     string   `yaml:"name"`     // as the provider knows it
	BaseURL  string   `yaml:"base_url"`
	KeyEnv   string   `yaml:"key_env"` // the environment variable that holds the key
	Rules    string   `yaml:"rules"`   // scripted: a file of rules
	Timeout  Duration `yaml:"timeout"`
	Fallback []string `yaml:"fallback"` // models that are asked when this one fails

	KeepRaw   bool   `yaml:"keep_raw"`  // not scripted: events include the server's raw data
	Whole     bool   `yaml:"whole"`     // answers without a reader of deltas come in one piece
	Effort    string `yaml:"effort"`    // openai, responses, gemini: how hard it reasons
	Reasoning string `yaml:"reasoning"` // openai: always or never send back its reasoning
	Summary   string `yaml:"summary"`   // responses, gemini: whether it returns a summary of its reasoning
	Store     bool   `yaml:"store"`     // responses: the service keeps the answers
	Thinking  int    `yaml:"thinking"`  // anthropic, gemini, bedrock: how many tokens it may think
	Cache     bool   `yaml:"cache"`     // anthropic, bedrock: the prompt is cached
	Region    string `yaml:"region"`    // bedrock
}

type Plugin struct {
	Path    string         `yaml:"path"` // a .wasm file, a script in JavaScript, an Extism manifest, the directory of a source in Go or JavaScript, builtin:NAME, or the reference of a shared plugin
	Build   PluginBuild    `yaml:"build"`
	Engine  string         `yaml:"engine"` // extismsdk, for an Extism plugin that is trusted; absent: the sandbox
	Grant   Grants         `yaml:"grant"`
	Tenants []string       `yaml:"tenants"` // the only ones that have it; absent: all
	Limits  PluginLimits   `yaml:"limits"`
	Config  map[string]any `yaml:"config"` // of its tools; an Extism plugin's config

	Functions []Function `yaml:"functions"` // of an Extism plugin: the ones that are tools

	Prefix string            `yaml:"prefix"` // of its tools' names
	Rename map[string]string `yaml:"rename"` // its tools, by their own names
}

// PluginBuild is the command that makes the module at a plugin's path of its source.
type PluginBuild struct {
	Run []string `yaml:"run"` // a program and its arguments, which no shell reads
	In  string   `yaml:"in"`  // the directory of the source, where it runs; absent: that of the module
	Env []string `yaml:"env"` // further variables of the host's environment that it gets
}

type PluginLimits struct {
	Timeout      Duration `yaml:"timeout"`
	Memory       byteSize `yaml:"memory"`
	Instructions int64    `yaml:"instructions"`
	Output       byteSize `yaml:"output"`
	HostCalls    int      `yaml:"host_calls"`
	Instances    int      `yaml:"instances"`
}

type Agent struct {
	Description  string   `yaml:"description"`
	Instructions string   `yaml:"instructions"` // may use {{.state.path}}
	Model        string   `yaml:"model"`
	Tools        []string `yaml:"tools"` // PLUGIN for all of its tools, PLUGIN/TOOL, mcp:SERVER, or CodeUse
	Code         Code     `yaml:"code"`
	Processors   []Use    `yaml:"processors"`
	Providers    []Use    `yaml:"providers"`
	Agents       []string `yaml:"agents"` // that are tools of this one
	ToolChoice   string   `yaml:"tool_choice"`
	MaxRounds    int      `yaml:"max_rounds"`
	OnMaxRounds  string   `yaml:"on_max_rounds"`
	Temperature  *float64 `yaml:"temperature"`
	MaxTokens    int      `yaml:"max_output_tokens"`
	Parameters   any      `yaml:"model_parameters"` // by the service's names
	Prefill      string   `yaml:"prefill"`
	Output       any      `yaml:"output"` // a JSON Schema
	SerialTools  bool     `yaml:"serial_tools"`
	JoinResults  bool     `yaml:"join_results"`
	StopAfter    []string `yaml:"stop_after"`

	ProviderTools []ProviderTool `yaml:"provider_tools"`
	Client        Client         `yaml:"client"`   // of a run of its own
	Messages      *Messages      `yaml:"messages"` // likewise
}

// ProviderTool is a tool that a model's provider runs.
type ProviderTool struct {
	Provider string `yaml:"provider"`
	Tool     any    `yaml:"tool"` // its declaration
}

type Network struct {
	Description   string         `yaml:"description"`
	Agents        []string       `yaml:"agents"`
	OnCall        []string       `yaml:"on_call"`
	Router        string         `yaml:"router"` // PLUGIN, PLUGIN/ROUTER, in_order or model
	RouterConfig  map[string]any `yaml:"router_config"`
	Routing       *Routing       `yaml:"routing"` // of a model: the router, or the one that a plugin delegates to
	Model         string         `yaml:"model"`
	Processors    []Use          `yaml:"processors"`
	Providers     []Use          `yaml:"providers"`
	MaxIterations int            `yaml:"max_iterations"`
	State         any            `yaml:"state"`
	StateSchema   any            `yaml:"state_schema"`
	StateOf       string         `yaml:"state_of"`   // thread (default) or run
	OnFailure     string         `yaml:"on_failure"` // keep (default) or discard
	Durable       bool           `yaml:"durable"`
	Client        Client         `yaml:"client"`
}

// Routing configures a router that is a model. It has no tools.
type Routing struct {
	Instructions string         `yaml:"instructions"` // may use {{.state.path}}
	Model        string         `yaml:"model"`
	Processors   []Use          `yaml:"processors"`
	Reader       string         `yaml:"reader"` // PLUGIN or PLUGIN/ROUTER
	ReaderConfig map[string]any `yaml:"reader_config"`
}

// Use is a processor or provider in use: PLUGIN or PLUGIN/PART, with its
// configuration.
type Use struct {
	Use       string `yaml:"use"`
	Config    any    `yaml:"config"`
	OnFailure string `yaml:"on_failure"` // fail (default) or skip
}

// History configures the store of conversations and the messages that models get of
// them.
type History struct {
	EachRound  bool   `yaml:"each_round"`
	Racing     string `yaml:"racing"` // wait (default), conflict or branch
	Processors []Use  `yaml:"processors"`
}

type Limits struct {
	RunTokens       int      `yaml:"run_tokens"`
	RunInstructions int64    `yaml:"run_instructions"`
	RunTimeout      Duration `yaml:"run_timeout"`
	ToolCalls       int      `yaml:"tool_calls"`
	Input           byteSize `yaml:"input"`
	State           byteSize `yaml:"state"`
}

// Duration is a time.Duration written as 1.5s, 2m.
type Duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	text := scalar(n)
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return badValue(n, "%q is not a duration such as 500ms or 2s", text)
	}
	*d = Duration(v)
	return nil
}

// byteSize is a number of bytes written as 4096, 64KiB, 16MiB.
type byteSize int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *byteSize) UnmarshalYAML(n ast.Node) error {
	v, err := termtext.ParseBytes(scalar(n))
	if err != nil {
		return badValue(n, "%v", err)
	}
	*s = byteSize(v)
	return nil
}

// Read reads a configuration. where is a file, or a directory that has an
// agenthost.yaml; fsys is nil for the operating system's files.
func Read(fsys fs.FS, where string) (*Config, error) {
	open := fsys
	if open == nil {
		open = OSFiles{}
	}
	file := where
	info, err := fs.Stat(open, file)
	if err == nil && info.IsDir() {
		file = path.Join(where, FileName)
		info, err = fs.Stat(open, file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "there is no configuration %s", file).
			WithHint("name a directory with an %s, or make one: agenthost init shop", FileName)
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, host.Errorf(host.InvalidArgument, "%s is not a file", file).WithHint("name a directory with an %s", FileName)
	}
	if info.Size() > maxConfigBytes {
		return nil, host.Errorf(host.InvalidArgument, "%s is %d bytes, more than %d", file, info.Size(), maxConfigBytes).
			WithHint("is it a configuration?")
	}
	text, err := fs.ReadFile(open, file)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read configuration: %w", err).WithHint("make it readable for this user")
	}
	return Parse(fsys, file, text)
}

func Parse(fsys fs.FS, file string, text []byte) (*Config, error) {
	c := &Config{}
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(c)
	c.Fsys, c.dir, c.Name, c.Text = fsys, path.Dir(file), file, text // an empty file has emptied all of c
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, c.yamlError(err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// check validates the configuration without opening or making anything.
func (c *Config) check() error {
	switch {
	case c.Version == 0:
		return c.ErrorAt(nil, "it has no version").WithHint("write: version: 1")
	case c.Version != 1:
		return c.ErrorAt(Keys("version"), "version is %d, and this program knows 1", c.Version).WithHint("write: version: 1, or update agenthost")
	case len(c.Agents) == 0:
		return c.ErrorAt(Keys("agents"), "it has no agents").WithHint("agenthost init shop makes a commented one")
	}
	if c.Tenant != "" {
		if err := host.ValidateTenant(c.Tenant); err != nil {
			return c.ErrorAt(Keys("tenant"), "%w", err)
		}
	}
	for name := range c.Networks {
		if _, twice := c.Agents[name]; twice {
			return c.ErrorAt(Keys("networks", name), "%q is both an agent and a network", name).WithHint("rename one of them")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if err := c.checkModel(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		if err := c.Plugins[name].check(name, c); err != nil {
			return err
		}
	}
	if err := c.checkVariables(); err != nil {
		return err
	}
	if err := c.checkMemory(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if err := cmp.Or(c.checkMessages(name), c.Agents[name].checkCode(name, c)); err != nil {
			return err
		}
	}
	if err := c.checkServeMCP(); err != nil {
		return err
	}
	if c.Default != "" && !slices.Contains(c.TargetNames(), c.Default) {
		return c.Unknown(Keys("default"), "network or agent", c.Default, c.TargetNames())
	}
	return nil
}

// check returns what cannot be in the entry of the plugin with that name.
func (p Plugin) check(name string, c *Config) error {
	if p.Engine != "" && p.Engine != extismsdk.Name {
		return c.ErrorAt(Keys("plugins", name, "engine"), "engine of plugin %q is %q", name, p.Engine).
			WithHint("leave it out for the sandbox, or use %s for an Extism plugin that is trusted", extismsdk.Name)
	}
	switch {
	case len(p.Build.Run) == 0 && p.Build.In == "" && len(p.Build.Env) == 0:
		return nil
	case len(p.Build.Run) == 0 || p.Build.Run[0] == "":
		return c.ErrorAt(Keys("plugins", name, "build"), "plugin %q has no build command", name).WithHint("name the program and its arguments: build: {run: [./build.sh, plugin.wasm]}")
	case p.Build.In == "" && path.Dir(p.Path) == ".":
		return c.ErrorAt(Keys("plugins", name, "build"), "the source of plugin %q would be the whole project", name).WithHint("put it into a directory of its own, and name that: build: {run: [...], in: %s}", name)
	case slices.ContainsFunc(p.Build.Env, func(name string) bool { return !isVariable(name) }):
		return c.ErrorAt(Keys("plugins", name, "build", "env"), "this is not a list of names of environment variables").
			WithHint("write the names alone, such as [HTTPS_PROXY], and set the variables where the host starts")
	case path.Ext(p.Path) != ".wasm":
		return c.ErrorAt(Keys("plugins", name, "path"), "plugin %q has a build command, and its path %q is no module", name, p.Path).WithHint("name the .wasm file that the command makes")
	}
	return nil
}

// TargetNames returns the networks and agents that can be run: networks first, each
// sorted by name.
func (c *Config) TargetNames() []string {
	return append(slices.Sorted(maps.Keys(c.Networks)), slices.Sorted(maps.Keys(c.Agents))...)
}

// DefaultTarget returns the name of the target that runs when none is named.
func (c *Config) DefaultTarget() string {
	if c.Default != "" {
		return c.Default
	}
	return c.TargetNames()[0]
}

// Granted returns the permissions that a plugin is granted.
func (c *Config) Granted(name string) (plugin.Permissions, error) {
	return c.permissions(Keys("plugins", name, "grant"), c.Plugins[name].Grant)
}

func (l PluginLimits) Limits() plugin.Limits {
	return plugin.Limits{
		Timeout: time.Duration(l.Timeout), MemoryBytes: int64(l.Memory), Instructions: l.Instructions,
		OutputBytes: int(l.Output), HostCalls: l.HostCalls, Instances: l.Instances,
	}
}

func (l Limits) Limits() host.Limits {
	return host.Limits{
		RunTokens: l.RunTokens, RunInstructions: l.RunInstructions, RunTimeout: time.Duration(l.RunTimeout), MaxToolCalls: l.ToolCalls,
		InputBytes: int(l.Input), StateBytes: int(l.State),
	}
}
