package configfile

// Approval selects the calls of a tool that a person must approve.
type Approval struct {
	Tool      string   `yaml:"tool"`       // its name, or * for every tool
	When      any      `yaml:"when"`       // a JSON Schema that their arguments fit; absent: all calls
	Reason    string   `yaml:"reason"`     // shown to the person
	Key       string   `yaml:"key"`        // by which the question is found; {{.arguments.NAME}} inserts an argument
	Timeout   Duration `yaml:"timeout"`    // after which the question expires; absent: never
	OnTimeout string   `yaml:"on_timeout"` // approve, deny or expire, the default
}

// ToolOption configures the calls of an agent's tool. A tool that a provider adds has
// its plugin's limits alone.
type ToolOption struct {
	Tool    string   `yaml:"tool"` // its name, or * for every tool
	Timeout Duration `yaml:"timeout"`
	Retries int      `yaml:"retries"`
}

// The outcomes of a question after its timeout.
const (
	OnTimeoutApprove = "approve"
	OnTimeoutDeny    = "deny"
	OnTimeoutExpire  = "expire" // the run ends
)
