package schematypes

import (
	"fmt"
	"strings"
)

// zigWords are words that are no identifiers without quotes.
const zigWords = `addrspace align allowzero and anyframe anytype asm async await break callconv catch comptime const continue
	defer else enum errdefer error export extern fn for if inline linksection noalias noinline nosuspend opaque or
	orelse packed pub resume return struct suspend switch test threadlocal try union unreachable usingnamespace var
	volatile while true false null undefined type void bool noreturn anyerror anyopaque comptime_int comptime_float
	isize usize`

// zigDialect writes types that the kit reads: fields have the names of the members.
func zigDialect() *dialect {
	return &dialect{
		reserved:  zigWords,
		header:    "const agenthost = @import(\"agenthost\");\n\n",
		comment:   [2]string{"/// ", ""},
		scalars:   map[kind]string{anyValue: "agenthost.Json", boolean: "bool", integer: "i64", number: "f64", text: "[]const u8"},
		list:      func(elem string) string { return "[]const " + elem },
		dict:      func(elem string) string { return "agenthost.Map(" + elem + ")" },
		option:    func(expr string) string { return "?" + expr },
		pointer:   func(name string) string { return "*const " + name },
		structure: zigStruct,
		enum:      zigEnum,
		alias:     func(name, expr string) string { return fmt.Sprintf("pub const %s = %s;\n", name, expr) },
		fieldName: func(name string) string { return name },
	}
}

func zigStruct(out *strings.Builder, name string, fields []memberType) {
	fmt.Fprintf(out, "pub const %s = struct {\n", name)
	for _, f := range fields {
		if f.name != f.json || !zigNames(f.json) {
			fmt.Fprintf(out, "    // The member %s has a name that no field can have.\n", zigText(f.json))
			continue
		}
		for _, line := range f.description {
			fmt.Fprintf(out, "    /// %s\n", line)
		}
		if f.may {
			f.expr += " = null"
		}
		fmt.Fprintf(out, "    %s: %s,\n", zigIdentifier(f.json), f.expr)
	}
	out.WriteString("};\n")
}

// zigNames reports whether a field can have a name.
func zigNames(name string) bool { return name != "" && !strings.ContainsRune(name, 0) }

func zigEnum(out *strings.Builder, name string, values []string, _ *names) {
	for _, value := range values {
		if !zigNames(value) {
			fmt.Fprintf(out, "pub const %s = []const u8; // one value is a name that nothing can have\n", name)
			return
		}
	}
	fmt.Fprintf(out, "pub const %s = enum {\n", name)
	for _, value := range values {
		fmt.Fprintf(out, "    %s,\n", zigIdentifier(value))
	}
	out.WriteString("};\n")
}

func zigIdentifier(name string) string {
	if plainIdentifier.MatchString(name) && name != "_" && !newNames(zigWords).reserved[name] && !zigNumber(name) {
		return name
	}
	return "@" + zigText(name)
}

// zigNumber reports whether a name is that of a type of numbers, such as u7.
func zigNumber(name string) bool {
	return len(name) > 1 && strings.ContainsRune("iufc", rune(name[0])) && strings.Trim(name[1:], "0123456789_") == ""
}

func zigText(s string) string { return quotedWith(s, `\u{%x}`) }
