package configfile

// Approval says which calls of a tool a person must agree to.
type Approval struct {
	Tool      string   `yaml:"tool"`       // its name, or * for every tool
	When      any      `yaml:"when"`       // a JSON Schema that their arguments fit; absent: all calls
	Reason    string   `yaml:"reason"`     // what the person is shown
	Key       string   `yaml:"key"`        // by which the question is found; {{.arguments.NAME}} inserts an argument
	Timeout   Duration `yaml:"timeout"`    // how long the question stands; absent: for ever
	OnTimeout string   `yaml:"on_timeout"` // approve, deny or expire, the default
}

// ToolOption is how an agent's tool is called. One that a provider adds is held to
// its plugin's limits alone.
type ToolOption struct {
	Tool    string   `yaml:"tool"` // its name, or * for every tool
	Timeout Duration `yaml:"timeout"`
	Retries int      `yaml:"retries"`
}

// What becomes of a question after its timeout.
const (
	OnTimeoutApprove = "approve"
	OnTimeoutDeny    = "deny"
	OnTimeoutExpire  = "expire" // the run ends
)
