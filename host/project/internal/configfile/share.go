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

// Trust says which shared plugins are trusted.
type Trust struct {
	From []string          `yaml:"from"` // registries, and repositories of them; absent: any
	Keys map[string]string `yaml:"keys"` // public keys, by name; absent: no signature is asked for
}
