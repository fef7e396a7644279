package configfile

// Share says how registries of plugins are reached, and which plugins of them are trusted.
type Share struct {
	Registries []ShareRegistry `yaml:"registries"`
	Trust      *Trust          `yaml:"trust"` // absent: every registry, and no signature is asked for
}

// ShareRegistry is a registry that is not reached by https at a public address.
type ShareRegistry struct {
	Host      string   `yaml:"host"`
	PlainHTTP bool     `yaml:"plain_http"`
	Addresses []string `yaml:"addresses"`
}

// Trust says which plugins are trusted.
type Trust struct {
	From []string          `yaml:"from"` // registries, and repositories of them; absent: any
	Keys map[string]string `yaml:"keys"` // public keys, by name; without keys and identities no signature is asked for

	Identities   map[string]TrustIdentity `yaml:"identities"`   // of sigstore, by name
	Repositories map[string][]string      `yaml:"repositories"` // that a key or an identity may sign, by its name; absent: those that its signatures name

	Files   string `yaml:"files"`   // of modules; allow (default) or signed
	Uploads string `yaml:"uploads"` // of plugins; allow (default) or signed
}

// TrustIdentity is who signs plugins by sigstore.
type TrustIdentity struct {
	Issuer         string `yaml:"issuer"`
	IssuerPattern  string `yaml:"issuer_pattern"`
	Subject        string `yaml:"subject"`
	SubjectPattern string `yaml:"subject_pattern"`

	Root       string `yaml:"root"` // a file
	LogEntries int    `yaml:"log_entries"`
	WithoutLog bool   `yaml:"without_log"`
	Timestamps int    `yaml:"timestamps"`
}

// The choices of [Trust] for plugins that do not come from a registry.
const (
	TrustAllows = "allow"
	TrustSigned = "signed"
)
