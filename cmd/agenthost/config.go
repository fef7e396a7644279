package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/agenthost/agenthost/examples"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/plugin"
	"github.com/agenthost/agenthost/host/plugin/extismsdk"
)

// configName is the file that makes a directory a project.
const configName = "agenthost.yaml"

// maxConfigBytes bounds a configuration file.
const maxConfigBytes = 1 << 20

// config is agenthost.yaml. Unknown keys are errors.
type config struct {
	Version  int                      `yaml:"version"`
	Default  string                   `yaml:"default"` // what "run" runs
	Model    string                   `yaml:"model"`   // for agents that name none
	Models   map[string]modelConfig   `yaml:"models"`
	Plugins  map[string]pluginConfig  `yaml:"plugins"`
	Agents   map[string]agentConfig   `yaml:"agents"`
	Networks map[string]networkConfig `yaml:"networks"`
	Memory   map[string]memoryConfig  `yaml:"memory"`
	History  historyConfig            `yaml:"history"`
	Limits   limitsConfig             `yaml:"limits"`
	Approve  []approveConfig          `yaml:"approve"` // what a person must agree to

	ToolOptions []toolConfig `yaml:"tool_options"`

	Tenant    string                  `yaml:"tenant"` // whose runs are that name none
	Tenants   map[string]tenantConfig `yaml:"tenants"`
	AnyTenant tenantConfig            `yaml:"any_tenant"` // every other
	Ceiling   *grantConfig            `yaml:"ceiling"`    // what no grant goes beyond; absent: none

	fsys fs.FS  // where paths are looked up; nil is the operating system's
	dir  string // of the file
	name string // of the file, for errors
	text []byte
}

type modelConfig struct {
	Provider string   `yaml:"provider"` // scripted, openai, responses, anthropic or gemini
	Name     string   `yaml:"name"`     // as the provider knows it
	BaseURL  string   `yaml:"base_url"`
	KeyEnv   string   `yaml:"key_env"` // the environment variable that holds the key
	Rules    string   `yaml:"rules"`   // scripted: a file of rules
	Timeout  duration `yaml:"timeout"`
	Fallback []string `yaml:"fallback"` // models that are asked when this one fails

	KeepRaw   bool   `yaml:"keep_raw"`  // not scripted: events have what the server sent
	Effort    string `yaml:"effort"`    // openai, responses, gemini: how hard it reasons
	Reasoning string `yaml:"reasoning"` // openai: always or never send back what it thought
	Summary   string `yaml:"summary"`   // responses, gemini: whether it tells what it thought
	Store     bool   `yaml:"store"`     // responses: the service keeps the answers
	Thinking  int    `yaml:"thinking"`  // anthropic, gemini: how many tokens it may think
	Cache     bool   `yaml:"cache"`     // anthropic: the prompt is cached
}

type pluginConfig struct {
	Path    string         `yaml:"path"`   // a .wasm file, an Extism manifest, the directory of a Go source, or builtin:NAME
	Engine  string         `yaml:"engine"` // extismsdk, for an Extism plugin that is trusted; absent: the sandbox
	Grant   grantConfig    `yaml:"grant"`
	Tenants []string       `yaml:"tenants"` // the only ones that have it; absent: all
	Limits  pluginLimits   `yaml:"limits"`
	Config  map[string]any `yaml:"config"` // of its tools; what an Extism plugin reads as its own

	Functions []functionConfig `yaml:"functions"` // of an Extism plugin: the ones that are tools

	Prefix string            `yaml:"prefix"` // of its tools' names
	Rename map[string]string `yaml:"rename"` // its tools, by their own names
}

type pluginLimits struct {
	Timeout      duration `yaml:"timeout"`
	Memory       byteSize `yaml:"memory"`
	Instructions int64    `yaml:"instructions"`
	Output       byteSize `yaml:"output"`
	HostCalls    int      `yaml:"host_calls"`
	Instances    int      `yaml:"instances"`
}

type agentConfig struct {
	Description  string      `yaml:"description"`
	Instructions string      `yaml:"instructions"` // may use {{.state.path}}
	Model        string      `yaml:"model"`
	Tools        []string    `yaml:"tools"` // PLUGIN for all of its tools, or PLUGIN/TOOL
	Processors   []useConfig `yaml:"processors"`
	Providers    []useConfig `yaml:"providers"`
	Agents       []string    `yaml:"agents"` // that are tools of this one
	ToolChoice   string      `yaml:"tool_choice"`
	MaxRounds    int         `yaml:"max_rounds"`
	OnMaxRounds  string      `yaml:"on_max_rounds"`
	Temperature  *float64    `yaml:"temperature"`
	MaxTokens    int         `yaml:"max_output_tokens"`
	Parameters   any         `yaml:"model_parameters"` // by the service's names
	Prefill      string      `yaml:"prefill"`
	Output       any         `yaml:"output"` // a JSON Schema
	SerialTools  bool        `yaml:"serial_tools"`
	JoinResults  bool        `yaml:"join_results"`
	StopAfter    []string    `yaml:"stop_after"`

	ProviderTools []providerToolConfig `yaml:"provider_tools"`
	Client        clientConfig         `yaml:"client"`   // of a run of its own
	Messages      *messagesConfig      `yaml:"messages"` // likewise
}

// providerToolConfig is a tool that a model's provider runs.
type providerToolConfig struct {
	Provider string `yaml:"provider"`
	Tool     any    `yaml:"tool"` // its declaration
}

type networkConfig struct {
	Description   string         `yaml:"description"`
	Agents        []string       `yaml:"agents"`
	OnCall        []string       `yaml:"on_call"`
	Router        string         `yaml:"router"` // PLUGIN, PLUGIN/ROUTER, in_order or model
	RouterConfig  map[string]any `yaml:"router_config"`
	Routing       *routingConfig `yaml:"routing"` // of a model: the router, or what a plugin delegates to
	Model         string         `yaml:"model"`
	Processors    []useConfig    `yaml:"processors"`
	Providers     []useConfig    `yaml:"providers"`
	MaxIterations int            `yaml:"max_iterations"`
	State         any            `yaml:"state"`
	StateSchema   any            `yaml:"state_schema"`
	StateOf       string         `yaml:"state_of"`   // thread (default) or run
	OnFailure     string         `yaml:"on_failure"` // keep (default) or discard
	Durable       bool           `yaml:"durable"`
	Client        clientConfig   `yaml:"client"`
}

// routingConfig is how a router that is a model decides. It has no tools.
type routingConfig struct {
	Instructions string         `yaml:"instructions"` // may use {{.state.path}}
	Model        string         `yaml:"model"`
	Processors   []useConfig    `yaml:"processors"`
	Reader       string         `yaml:"reader"` // PLUGIN or PLUGIN/ROUTER
	ReaderConfig map[string]any `yaml:"reader_config"`
}

// useConfig is a processor or provider in use: PLUGIN or PLUGIN/PART, with its
// configuration.
type useConfig struct {
	Use       string `yaml:"use"`
	Config    any    `yaml:"config"`
	OnFailure string `yaml:"on_failure"` // fail (default) or skip
}

// historyConfig says where conversations are kept and what models are shown of
// them.
type historyConfig struct {
	AddressEnv string      `yaml:"address_env"` // the environment variable that holds the address of a PostgreSQL database
	EachRound  bool        `yaml:"each_round"`
	Racing     string      `yaml:"racing"` // wait (default), conflict or branch
	Processors []useConfig `yaml:"processors"`
}

type limitsConfig struct {
	RunTokens       int      `yaml:"run_tokens"`
	RunInstructions int64    `yaml:"run_instructions"`
	RunTimeout      duration `yaml:"run_timeout"`
	ToolCalls       int      `yaml:"tool_calls"`
	Input           byteSize `yaml:"input"`
	State           byteSize `yaml:"state"`
}

// duration is a time.Duration written as 1.5s, 2m.
type duration time.Duration

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	text := scalar(n)
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return badValue(n, "%q is not a duration such as 500ms or 2s", text)
	}
	*d = duration(v)
	return nil
}

// byteSize is a number of bytes written as 4096, 64KiB, 16MiB.
type byteSize int64

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *byteSize) UnmarshalYAML(n ast.Node) error {
	v, err := parseBytes(scalar(n))
	if err != nil {
		return badValue(n, "%v", err)
	}
	*s = byteSize(v)
	return nil
}

func parseBytes(text string) (int64, error) {
	units := []struct {
		suffix string
		n      int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || v < 0 || v > (1<<62)/u.n {
			break
		}
		return v * u.n, nil
	}
	return 0, fmt.Errorf("%q is not a size such as 65536, 64KiB or 16MiB", text)
}

// exampleProject names the project that every binary has: the order desk of the demo.
const exampleProject = builtinPrefix + "orderdesk"

// changeable refuses to change the project that is in the binary.
func (c *config) changeable() error {
	if c.fsys == nil {
		return nil
	}
	return host.Errorf(host.FailedPrecondition, "%s is in the binary and cannot be changed", exampleProject).
		WithHint("make a project of your own: agenthost init shop --template tools")
}

// readConfig reads a configuration. where is a file, a directory that has an
// agenthost.yaml, or exampleProject; fsys is nil for the operating system's files.
func readConfig(fsys fs.FS, where string) (*config, error) {
	if fsys == nil && where == exampleProject {
		return readConfig(examples.Files, strings.TrimPrefix(where, builtinPrefix))
	}
	open := fsys
	if open == nil {
		open = osFiles{}
	}
	file := where
	info, err := fs.Stat(open, file)
	if err == nil && info.IsDir() {
		file = path.Join(where, configName)
		info, err = fs.Stat(open, file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Errorf(host.NotFound, "there is no configuration %s", file).
			WithHint("name a directory with an %s, or make one: agenthost init shop", configName)
	}
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, host.Errorf(host.InvalidArgument, "%s is not a file", file).WithHint("name a directory with an %s", configName)
	}
	if info.Size() > maxConfigBytes {
		return nil, host.Errorf(host.InvalidArgument, "%s is %d bytes, more than %d", file, info.Size(), maxConfigBytes).
			WithHint("is it a configuration?")
	}
	text, err := fs.ReadFile(open, file)
	if err != nil {
		return nil, host.Errorf(host.FailedPrecondition, "read configuration: %w", err).WithHint("make it readable for this user")
	}
	return parseConfig(fsys, file, text)
}

func parseConfig(fsys fs.FS, file string, text []byte) (*config, error) {
	c := &config{}
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(c)
	c.fsys, c.dir, c.name, c.text = fsys, path.Dir(file), file, text // an empty file has emptied all of c
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, c.yamlError(err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// check holds the configuration to what can be seen without making anything.
func (c *config) check() error {
	switch {
	case c.Version == 0:
		return c.errorAt(nil, "it has no version").WithHint("write: version: 1")
	case c.Version != 1:
		return c.errorAt(keys("version"), "version is %d, and this program knows 1", c.Version).WithHint("write: version: 1, or update agenthost")
	case len(c.Agents) == 0:
		return c.errorAt(keys("agents"), "it has no agents").WithHint("agenthost init shop makes a commented one")
	}
	if c.Tenant != "" {
		if err := host.ValidateTenant(c.Tenant); err != nil {
			return c.errorAt(keys("tenant"), "%w", err)
		}
	}
	for name := range c.Networks {
		if _, twice := c.Agents[name]; twice {
			return c.errorAt(keys("networks", name), "%q is both an agent and a network", name).WithHint("rename one of them")
		}
	}
	for _, name := range sortedKeys(c.Models) {
		if err := c.checkModel(name); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(c.Plugins) {
		if e := c.Plugins[name].Engine; e != "" && e != extismsdk.Name {
			return c.errorAt(keys("plugins", name, "engine"), "engine of plugin %q is %q", name, e).
				WithHint("leave it out for the sandbox, or use %s for an Extism plugin that is trusted", extismsdk.Name)
		}
	}
	if err := c.checkVariables(); err != nil {
		return err
	}
	if err := c.checkMemory(); err != nil {
		return err
	}
	for _, name := range sortedKeys(c.Agents) {
		if err := c.checkMessages(name); err != nil {
			return err
		}
	}
	if c.Default != "" && !slices.Contains(c.targets(), c.Default) {
		return c.unknown(keys("default"), "network or agent", c.Default, c.targets())
	}
	return nil
}

// targets returns what can be run: networks first, each by name.
func (c *config) targets() []string {
	return append(sortedKeys(c.Networks), sortedKeys(c.Agents)...)
}

// target returns the name of what to run when nobody says.
func (c *config) target() string {
	if c.Default != "" {
		return c.Default
	}
	return c.targets()[0]
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// grants maps what a plugin is granted.
func (c *config) grants(name string) (plugin.Permissions, error) {
	return c.permissions(keys("plugins", name, "grant"), c.Plugins[name].Grant)
}

func (l pluginLimits) limits() plugin.Limits {
	return plugin.Limits{
		Timeout: time.Duration(l.Timeout), MemoryBytes: int64(l.Memory), Instructions: l.Instructions,
		OutputBytes: int(l.Output), HostCalls: l.HostCalls, Instances: l.Instances,
	}
}

func (l limitsConfig) limits() host.Limits {
	return host.Limits{
		RunTokens: l.RunTokens, RunInstructions: l.RunInstructions, RunTimeout: time.Duration(l.RunTimeout), MaxToolCalls: l.ToolCalls,
		InputBytes: int(l.Input), StateBytes: int(l.State),
	}
}
