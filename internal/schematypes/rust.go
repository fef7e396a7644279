package schematypes

import (
	"fmt"
	"strings"
)

// rustWords are words that are no identifiers, and types that declarations use.
const (
	rustWords = `as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod
	move mut pub ref return self static struct super trait true type unsafe use where while abstract become box do
	final gen macro override priv try typeof unsized virtual yield`
	rustTypes = rustWords + ` Self String Vec Option Box BTreeMap Some None Ok Err Result Default Debug Clone PartialEq Serialize Deserialize`
)

// rustDialect writes types that serde reads and writes.
func rustDialect() *dialect {
	return &dialect{
		reserved:   rustTypes,
		header:     "use serde::{Deserialize, Serialize};\n\n",
		comment:    [2]string{"/// ", ""},
		scalars:    map[kind]string{anyValue: "serde_json::Value", boolean: "bool", integer: "i64", number: "f64", text: "String"},
		list:       func(elem string) string { return "Vec<" + elem + ">" },
		dict:       func(elem string) string { return "std::collections::BTreeMap<String, " + elem + ">" },
		option:     func(expr string) string { return "Option<" + expr + ">" },
		pointer:    func(name string) string { return "Box<" + name + ">" },
		structure:  rustStruct,
		enum:       rustEnum,
		alias:      func(name, expr string) string { return fmt.Sprintf("pub type %s = %s;\n", name, expr) },
		fieldName:  snake,
		fieldWords: rustWords,
	}
}

func rustStruct(out *strings.Builder, name string, fields []memberType) {
	fmt.Fprintf(out, "#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]\npub struct %s {\n", name)
	for _, f := range fields {
		for _, line := range f.description {
			fmt.Fprintf(out, "    /// %s\n", line)
		}
		var rules []string
		if f.name != f.json {
			rules = append(rules, "rename = "+rustText(f.json))
		}
		if f.may {
			rules = append(rules, `default, skip_serializing_if = "Option::is_none"`)
		}
		if len(rules) > 0 {
			fmt.Fprintf(out, "    #[serde(%s)]\n", strings.Join(rules, ", "))
		}
		fmt.Fprintf(out, "    pub %s: %s,\n", f.name, f.expr)
	}
	out.WriteString("}\n")
}

func rustEnum(out *strings.Builder, name string, values []string, _ *names) {
	fmt.Fprintf(out, "#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]\npub enum %s {\n", name)
	used := newNames("Self")
	for _, value := range values {
		variant := used.unique(pascal(value))
		if variant != value {
			fmt.Fprintf(out, "    #[serde(rename = %s)]\n", rustText(value))
		}
		fmt.Fprintf(out, "    %s,\n", variant)
	}
	out.WriteString("}\n")
}

func rustText(s string) string { return quotedWith(s, `\u{%x}`) }
