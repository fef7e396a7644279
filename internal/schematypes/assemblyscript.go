package schematypes

import (
	"fmt"
	"strings"
)

// assemblyScriptTypes are names of types that a declaration would hide.
const assemblyScriptTypes = typeScriptReserved + ` Json i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 v128 isize usize bool string
	i8x16 externref funcref StaticArray Int8Array Uint8Array textIn`

// assemblyScriptDialect writes classes that read themselves from a value of the kit.
func assemblyScriptDialect() *dialect {
	return &dialect{
		reserved: assemblyScriptTypes,
		header: `import { Json } from "./agenthost";

function textIn(v: Json): string {
  const s = v.string();
  return s === null ? "" : s;
}

`,
		comment:   [2]string{"// ", ""},
		scalars:   map[kind]string{anyValue: "Json", boolean: "bool", integer: "i64", number: "f64", text: "string"},
		list:      markedList("Json"),
		dict:      func(string) string { return "Json" },
		option:    func(expr string) string { return expr + markMay },
		structure: assemblyScriptClass,
		alias: func(name, expr string) string {
			return fmt.Sprintf("export type %s = %s;\n", name, strings.TrimSuffix(expr, markMay))
		},
		fieldName: func(name string) string {
			if plainIdentifier.MatchString(name) && len(name) <= maxName {
				return name
			}
			camel := pascal(name)
			return strings.ToLower(camel[:1]) + camel[1:]
		},
		beside:     func(name string) (flag, count string) { return "has" + strings.ToUpper(name[:1]) + name[1:], name },
		fieldWords: typeScriptReserved,
	}
}

// assemblyScriptClass writes a class. Absent members are null, or the value that such a
// field begins with: numbers and booleans have a flag beside them.
func assemblyScriptClass(out *strings.Builder, name string, fields []memberType) {
	fmt.Fprintf(out, "export class %s {\n", name)
	reads := &strings.Builder{}
	for i, f := range fields {
		for _, line := range append(f.description, memberWords(f)) {
			fmt.Fprintf(out, "  // %s\n", line)
		}
		expr := strings.TrimSuffix(f.expr, markMay)
		elem, isList := strings.CutSuffix(expr, markList)
		first := map[string]string{"bool": "false", "i64": "0", "f64": "0"}[expr]
		switch {
		case isList:
			fmt.Fprintf(out, "  %s: %s = [];\n", f.name, expr)
		case first != "":
			fmt.Fprintf(out, "  %s: %s = %s;\n", f.name, expr, first)
		case expr == "string" && !f.may:
			fmt.Fprintf(out, "  %s: string = \"\";\n", f.name)
		default:
			fmt.Fprintf(out, "  %s: %s | null = null;\n", f.name, expr)
		}
		flag := ""
		if f.may && first != "" {
			flag = fmt.Sprintf(" this.%s = true;", f.flag)
			fmt.Fprintf(out, "  %s: bool = false;\n", f.flag)
		}
		fmt.Fprintf(reads, "    const v%d = from.get(%s);\n    if (v%d !== null && !v%d.isNull) {", i, quoted(f.json), i, i)
		if isList {
			fmt.Fprintf(reads, "\n      const items = v%d.items();\n      for (let i = 0; i < items.length; i++) this.%s.push(%s);\n    }\n", i, f.name, assemblyScriptRead(elem, "items[i]"))
			continue
		}
		fmt.Fprintf(reads, " this.%s = %s;%s }\n", f.name, assemblyScriptRead(expr, fmt.Sprint("v", i)), flag)
	}
	fmt.Fprintf(out, "\n  constructor(from: Json) {\n%s  }\n}\n", reads)
}

// assemblyScriptRead returns the expression of a type's value in a Json.
func assemblyScriptRead(expr, from string) string {
	switch expr {
	case "bool":
		return from + ".isTrue"
	case "i64":
		return from + ".int()"
	case "f64":
		return from + ".float()"
	case "string":
		return "textIn(" + from + ")"
	case "Json":
		return from
	default:
		return "new " + expr + "(" + from + ")"
	}
}
