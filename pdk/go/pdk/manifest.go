package pdk

// abiVersion is the version of the contract that the package speaks.
const abiVersion = 1

// A Manifest says what a plugin is and what it asks for. What it offers is added
// by [Tool], [Processor] and their siblings.
type Manifest struct {
	Name        string // for display; the operator's registration is the identity
	Version     string
	Description string
	Permissions Permissions

	// Requires names host operations that the plugin cannot live without. A host
	// that lacks one refuses the plugin when it is loaded.
	Requires []string
}

// A Resource is a text or file that clients of the host read: Text, or what the tool of
// the name Tool answers to {"uri": ...}, a string as a text and anything else as JSON.
type Resource struct {
	URI         string // absolute, "shop://terms"; or a template, "shop://orders/{id}"
	Name        string
	Title       string
	Description string
	MediaType   string
	Text, Tool  string // one of them
}

// A Prompt is a text that a person chooses in a client of the host: Text, in which
// {{.arguments.NAME}} stands for an argument, or what the tool of the name Tool answers to
// the arguments, a string.
type Prompt struct {
	Name        string
	Title       string
	Description string
	Arguments   []PromptArgument
	Text, Tool  string // one of them
}

// A PromptArgument is an argument that a person fills in.
type PromptArgument struct {
	Name        string
	Description string
	Required    bool
}

// Permissions are what a plugin asks for. The operator grants all or part of
// it; without a grant every one of them is denied.
type Permissions struct {
	HTTP     []HTTPPermission
	KV       Access // to the plugin's own keys of the tenant
	Secrets  []SecretPermission
	Model    bool // ask models (model.generate)
	Messages bool // read the conversation as a router (messages.get)
	Queue    bool // run handlers after the turn (queue.send)
	Clock    bool // read the real time
	Random   bool // read real randomness
	State    Access
	Tools    []string // call tools of the agent at work (tool.call), by name; "*" is each of them

	// Operations are those of the host's own program that the plugin runs by [HostCall], such as
	// "billing.charge".
	Operations []string
}

// Access is how far a permission goes.
type Access string

// The degrees of access. The zero value is [AccessNone].
const (
	AccessNone  Access = ""
	AccessRead  Access = "read"
	AccessWrite Access = "write" // includes read
)

// An HTTPPermission allows requests to one host.
type HTTPPermission struct {
	Scheme  string // "https" if empty
	Host    string
	Port    int      // the scheme's if 0
	Methods []string // GET alone if empty
}

// A SecretPermission allows a secret in requests to some hosts. The plugin never
// sees its value.
type SecretPermission struct {
	Name  string
	Hosts []string
}

// A ToolSpec describes a registered tool. Fields may be set after registration:
//
//	pdk.Tool("refund", "Refunds an order.", schema, refund).NeedsApproval = true
type ToolSpec struct {
	Name        string
	Description string
	Parameters  Raw // JSON Schema of the arguments
	Result      Raw // JSON Schema of the content, if it is to be known

	ReadOnly      bool // changes nothing
	Destructive   bool // may change or remove what is there, and not only add to it
	Idempotent    bool // calling twice with one idempotency key is calling once
	NeedsApproval bool // a person must agree to each call

	handler func(*Call) error
}

// A ProcessorSpec describes a registered processor.
type ProcessorSpec struct {
	Name   string
	Config Raw    // JSON Schema of the configuration, if there is one
	Tokens Tokens // which exact token counts the outline is to have

	outline bool
	handler func(*Process) error
}

// Tokens asks for exact token counts in an outline. At most one field is set;
// the zero value asks for none.
type Tokens struct {
	Encoding  string // counted in this encoding, e.g. "o200k_base"
	ConfigKey string // in the one that the configuration names under this key
	Model     bool   // in the one of the model that the conversation is for
}

// A RouterSpec describes a registered router.
type RouterSpec struct {
	Name   string
	Config Raw // JSON Schema of the configuration, if there is one

	handler func(*Route) error
}

// A ProviderSpec describes a registered context provider.
type ProviderSpec struct {
	Name   string
	Config Raw // JSON Schema of the configuration, if there is one

	provide func(*Provide) error
	observe func(*Observe) error
}

// appendManifest writes the manifest of p.
func appendManifest(w *Writer, p *Plugin) {
	m := &p.manifest
	w.BeginObject().key("abi").Int(abiVersion).key("name").Str(m.Name)
	w.member("version", m.Version)
	w.member("description", m.Description)
	for _, k := range p.kinds {
		if k.describe != nil {
			k.describe(p, w)
		}
	}
	if len(m.Requires) > 0 {
		w.strings("requires", m.Requires)
	}
	m.Permissions.append(w)
	w.EndObject()
}

func describeResources(p *Plugin, w *Writer) {
	w.key("resources").BeginArray()
	for i := range p.resources {
		p.resources[i].append(w)
	}
	w.EndArray()
}

func describePrompts(p *Plugin, w *Writer) {
	w.key("prompts").BeginArray()
	for i := range p.prompts {
		p.prompts[i].append(w)
	}
	w.EndArray()
}

func (r *Resource) append(w *Writer) {
	w.BeginObject().key("uri").Str(r.URI).key("name").Str(r.Name)
	w.member("title", r.Title)
	w.member("description", r.Description)
	w.member("media_type", r.MediaType)
	w.member("text", r.Text)
	w.member("tool", r.Tool)
	w.EndObject()
}

func (p *Prompt) append(w *Writer) {
	w.BeginObject().key("name").Str(p.Name)
	w.member("title", p.Title)
	w.member("description", p.Description)
	if len(p.Arguments) > 0 {
		w.key("arguments").BeginArray()
		for _, a := range p.Arguments {
			w.BeginObject().key("name").Str(a.Name)
			w.member("description", a.Description)
			w.flag("required", a.Required)
			w.EndObject()
		}
		w.EndArray()
	}
	w.member("text", p.Text)
	w.member("tool", p.Tool)
	w.EndObject()
}

func describeTools(p *Plugin, w *Writer) {
	w.key("tools").BeginArray()
	for _, t := range p.tools {
		t.append(w)
	}
	w.EndArray()
}

func describeProcessors(p *Plugin, w *Writer) {
	w.key("processors").BeginArray()
	for _, spec := range p.processors {
		spec.append(w)
	}
	w.EndArray()
}

func describeRouters(p *Plugin, w *Writer) {
	w.key("routers").BeginArray()
	for _, r := range p.routers {
		w.BeginObject().key("name").Str(r.Name)
		w.rawMember("config", r.Config)
		w.EndObject()
	}
	w.EndArray()
}

func describeProviders(p *Plugin, w *Writer) {
	w.key("providers").BeginArray()
	for _, spec := range p.providers {
		w.BeginObject().key("name").Str(spec.Name)
		w.key("observe").Bool(spec.observe != nil)
		w.rawMember("config", spec.Config)
		w.EndObject()
	}
	w.EndArray()
}

func (t *ToolSpec) append(w *Writer) {
	w.BeginObject().key("name").Str(t.Name).key("description").Str(t.Description)
	parameters := t.Parameters
	if parameters == "" {
		parameters = `{"type":"object","properties":{},"additionalProperties":false}`
	}
	w.key("parameters").Raw(parameters)
	w.rawMember("result", t.Result)
	if t.ReadOnly || t.Destructive || t.Idempotent || t.NeedsApproval {
		w.key("annotations").BeginObject()
		w.flag("read_only", t.ReadOnly)
		w.flag("destructive", t.Destructive)
		w.flag("idempotent", t.Idempotent)
		w.flag("needs_approval", t.NeedsApproval)
		w.EndObject()
	}
	w.EndObject()
}

func (p *ProcessorSpec) append(w *Writer) {
	w.BeginObject().key("name").Str(p.Name)
	input := "messages"
	if p.outline {
		input = "outline"
	}
	w.key("input").Str(input)
	if p.Tokens != (Tokens{}) {
		w.key("tokens").BeginObject()
		w.member("encoding", p.Tokens.Encoding)
		w.member("config_key", p.Tokens.ConfigKey)
		w.flag("model", p.Tokens.Model)
		w.EndObject()
	}
	w.rawMember("config", p.Config)
	w.EndObject()
}

// append writes the member "permissions".
func (p *Permissions) append(w *Writer) {
	w.key("permissions").BeginObject()
	if len(p.HTTP) > 0 {
		w.key("http").BeginArray()
		for i := range p.HTTP {
			p.HTTP[i].append(w)
		}
		w.EndArray()
	}
	w.member("kv", string(p.KV))
	if len(p.Secrets) > 0 {
		w.key("secrets").BeginArray()
		for _, s := range p.Secrets {
			w.BeginObject().key("name").Str(s.Name)
			w.strings("hosts", s.Hosts)
			w.EndObject()
		}
		w.EndArray()
	}
	w.flag("model", p.Model)
	w.flag("messages", p.Messages)
	w.flag("queue", p.Queue)
	w.flag("clock", p.Clock)
	w.flag("random", p.Random)
	w.member("state", string(p.State))
	if len(p.Tools) > 0 {
		w.strings("tools", p.Tools)
	}
	if len(p.Operations) > 0 {
		w.strings("operations", p.Operations)
	}
	w.EndObject()
}

func (h *HTTPPermission) append(w *Writer) {
	scheme, methods := h.Scheme, h.Methods
	if scheme == "" {
		scheme = "https"
	}
	if len(methods) == 0 {
		methods = []string{"GET"}
	}
	w.BeginObject().key("scheme").Str(scheme).key("host").Str(h.Host)
	if h.Port != 0 {
		w.key("port").Int(int64(h.Port))
	}
	w.strings("methods", methods)
	w.EndObject()
}
