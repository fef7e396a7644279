package configfile

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/agenthost/agenthost/host"
)

// An editor shows something of every key, and of none that is not read.
func TestEveryKeyOfTheConfigurationHasADoc(t *testing.T) {
	docs, found := keyDocs(), map[string]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer:
			visit(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if key := f.Tag.Get("yaml"); key != "" {
					name := typ.Name() + "." + key
					found[name] = true
					if docs[name].text == "" {
						t.Errorf("%s has no doc in keyDocs", name)
					}
					visit(f.Type)
				}
			}
		}
	}
	visit(reflect.TypeFor[Config]())
	for name := range docs {
		if !found[name] {
			t.Errorf("keyDocs has %s, which is no key", name)
		}
	}
}

// What the schema refuses, an editor underlines; what is read must not be.
func TestSchemaFitsWhatIsRead(t *testing.T) {
	schema, err := host.CompileSchema(Schema())
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../../../examples/orderdesk/" + FileName)
	if err != nil {
		t.Fatal(err)
	}
	const head = "version: 1\nagents: {a: {}}\n"
	for _, test := range []struct{ name, text, says string }{
		{"the example", string(example), ""},
		{"an agent of nothing", "version: 1\nagents:\n  a:\n", ""},
		{"times and sizes", head + "limits: {run_timeout: 1m30s, input: 2MiB, state: 4096}\n", ""},
		{"no time", head + "limits: {run_timeout: 0}\n", ""},
		{"grants", head + "plugins: {p: {path: p, grant: {state: write, http: [https://a.b], secrets: [{name: n, hosts: [a.b]}]}}}\n", ""},
		{"any state", head + "networks: {n: {agents: [a], state: [1, {b: null}]}}\n", ""},
		{"a key that is not known", head + "modles: {}\n", "modles"},
		{"a time without a unit", head + "limits: {run_timeout: 90}\n", "run_timeout"},
		{"a size that is none", head + "limits: {input: lots}\n", "input"},
		{"a provider that is not known", head + "models: {m: {provider: nobody}}\n", "provider"},
		{"a processor of nothing", "version: 1\nagents: {a: {processors: [{}]}}\n", "use"},
		{"no version", "agents: {a: {}}\n", "version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			invalid := schema.Validate(raw)
			_, refused := Parse(nil, "test/"+FileName, []byte(test.text))
			switch {
			case test.says == "" && (invalid != nil || refused != nil):
				t.Errorf("the schema says %v, and reading it %v", invalid, refused)
			case test.says != "" && (invalid == nil || !strings.Contains(invalid.Error(), test.says)):
				t.Errorf("the schema says %v, want it to name %s", invalid, test.says)
			}
		})
	}
}
