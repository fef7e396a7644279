package schematypes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/internal/schematypes"
	"github.com/agenthost/agenthost/internal/testnode"
)

func TestTypeScript(t *testing.T) {
	want := `/** An order of a shop. */
export interface Order {
  /** minimum 1 */
  id: number;
  /** Where it is. */
  state?: "open" | "paid" | null;
  "content-type"?: string;
  lines: OrderLinesItem[];
  to?: Address;
  labels?: { [key: string]: string };
  note?: string | null;
  by?: string | number;
  extra?: unknown;
}

export interface OrderLinesItem {
  sku: string;
  /** default 1 */
  count?: number;
}

export interface Address {
  street?: string;
  next?: Address;
}
`
	if got := declare(t, schematypes.TypeScript, "order", order); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTypeScriptOfOneSchema(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{"true", `true`, `export type X = unknown;`},
		{"alternatives with null", `{"oneOf":[{"type":"integer"},{"type":"null"}]}`, `export type X = number | null;`},
		{"OpenAPI's nullable", `{"type":"string","nullable":true}`, `export type X = string | null;`},
		{"one type twice", `{"type":["integer","number"]}`, `export type X = number;`},
		{"a constant", `{"const":"a\"b"}`, `export type X = "a\"b";`},
		{"a tuple", `{"prefixItems":[{"type":"string"},{"type":["null","boolean"]}],"items":false}`, `export type X = [string?, (null | boolean)?];`},
		{"a tuple as before 2020", `{"items":[{"type":"string"}]}`, `export type X = [string?, ...unknown[]];`},
		{"alternatives in an array", `{"type":"array","items":{"type":["string","null"]}}`, `export type X = (string | null)[];`},
		{"required alone", `{"required":["a"]}`, "export interface X {\n  a: unknown;\n}"},
		{"more members", `{"properties":{"a":{"type":"string"}},"additionalProperties":true}`, "export interface X {\n  a?: string;\n  [key: string]: unknown;\n}"},
		{"allOf", `{"allOf":[{"$ref":"#/$defs/a"},{"required":["b"]}],"properties":{"b":{"type":"number"}},"$defs":{"a":{"properties":{"a":{"type":"string"}},"required":["a"]}}}`,
			"export interface X {\n  b: number;\n  a: string;\n}"},
		{"either of two members", `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			"export type X = X1 | X2;\n\nexport interface X1 {\n  a: string;\n  b?: string;\n}\n\nexport interface X2 {\n  a?: string;\n  b: string;\n}"},
		{"a definition that is only itself", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`, `export type X = unknown;`},
		{"itself", `{"properties":{"next":{"$ref":"#"}}}`, "export interface X {\n  next?: X;\n}"},
		{"arrays of itself", `{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}`, "export type X = A;\n\nexport type A = A[];"},
		{"a pointer with escapes", `{"$ref":"#/$defs/a~1b%20c","$defs":{"a/b c":{"type":"boolean"}}}`, "export type X = ABC;\n\nexport type ABC = boolean;"},
		{"a pointer to an element", `{"properties":{"a":{"$ref":"#/anyOf/0"}},"anyOf":[{"type":"integer"}]}`, "export interface X {\n  a?: T0;\n}\n\nexport type T0 = number;"},
		{"a reference to another document", `{"properties":{"a":{"$ref":"https://example.com/x"}}}`, "export interface X {\n  a?: unknown;\n}"},
		{"the end of a comment", `{"description":"a */ evil() /* b\u2028*/","type":"string"}`, "/**\n * a * / evil() / * b\n * * /\n */\nexport type X = string;"},
		{"hostile names", `{"properties":{"a\"\n*/}":{"properties":{"\u202e__proto__":{"type":"null"}}},"\ud83d\ude00":{"enum":["\u2028"]}}}`,
			"export interface X {\n  \"a\\\"\\u000a*/}\"?: XA;\n  \"\\ud83d\\ude00\"?: \"\\u2028\";\n}\n\nexport interface XA {\n  \"\\u202e__proto__\"?: null;\n}"},
		{"a definition with the name of a type of the language", `{"$ref":"#/$defs/promise","$defs":{"promise":{"properties":{}}}}`,
			"export type X = Promise_;\n\nexport type Promise_ = { [key: string]: unknown };"},
		{"a member that comes twice", `{"properties":{"a":{"type":"string"},"a":{"type":"number"}}}`, "export interface X {\n  a?: number;\n}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := declare(t, schematypes.TypeScript, "x", tt.schema); got != tt.want+"\n" {
				t.Errorf("of %s got\n%s\nwant\n%s", tt.schema, got, tt.want)
			}
		})
	}
}

func TestTypeScriptFunction(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    schematypes.Function
		want string
	}{
		{"arguments and a result", schematypes.Function{Name: "greet", Description: "Greets.\nPolitely.", Result: json.RawMessage(`{"type":"string"}`),
			Parameters: json.RawMessage(`{"properties":{"name":{"type":"string","description":"Who."},"at":{"properties":{"hour":{"type":"integer"}}}},"required":["name"]}`)},
			`/**
 * Greets.
 * Politely.
 */
declare function greet(args: {
  /** Who. */
  name: string;
  at?: {
    hour?: number;
  };
}): Promise<string>;
`},
		{"neither", schematypes.Function{Name: "now"}, "declare function now(): Promise<any>;\n"},
		{"nothing required", schematypes.Function{Name: "list", Parameters: json.RawMessage(`{"properties":{"n":{"type":"integer"}}}`)},
			"declare function list(args?: {\n  n?: number;\n}): Promise<any>;\n"},
		{"a name of the language", schematypes.Function{Name: "delete"}, "declare function delete_(): Promise<any>;\n"},
		{"a name with other letters", schematypes.Function{Name: "mcp.gh/createIssue 2"}, "declare function mcp_gh_create_issue_2(): Promise<any>;\n"},
		{"a definition", schematypes.Function{Name: "walk", Parameters: json.RawMessage(`{"required":["tree"],"properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"properties":{"left":{"$ref":"#/$defs/node"}}}}}`)},
			"interface walk_Node {\n  left?: walk_Node;\n}\n\ndeclare function walk(args: {\n  tree: walk_Node;\n}): Promise<any>;\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := schematypes.TypeScriptFunction(tt.f)
			if err != nil || got != tt.want {
				t.Errorf("got\n%s%v\nwant\n%s", got, err, tt.want)
			}
		})
	}
	if _, err := schematypes.TypeScriptFunction(schematypes.Function{Name: "f", Parameters: json.RawMessage(`[`)}); err == nil || !strings.Contains(err.Error(), "parameters of f: ") {
		t.Errorf("parameters that are not JSON: %v, want an error that names them", err)
	}
}

// TestTheCompilerAcceptsTypeScript declares schemas of many forms and has the compiler
// check them all at once.
func TestTheCompilerAcceptsTypeScript(t *testing.T) {
	dir := testnode.Install(t, "testdata/typescript")
	random := rand.New(rand.NewPCG(1, 2))
	for i, schema := range append([]string{order}, schemas(random, 300)...) {
		f, err := schematypes.TypeScriptFunction(schematypes.Function{Name: fmt.Sprint("f", i), Parameters: json.RawMessage(schema), Result: json.RawMessage(schema)})
		if err != nil {
			t.Fatalf("function of %s: %v", schema, err)
		}
		text := fmt.Sprintf("// %s\n", strings.ReplaceAll(schema, "\n", " ")) + declare(t, schematypes.TypeScript, "root", schema) + f
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("s%d.ts", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := `{"compilerOptions":{"strict":true,"noEmit":true,"types":[],"lib":["es2022"],"target":"es2022"},"include":["*.ts"]}`
	if err := os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	compile := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("the compiler refuses generated types: %v\n%.2000s", err, out)
	}
}

// schemas returns random schemas, hostile in their names, texts and references.
func schemas(random *rand.Rand, count int) (list []string) {
	for range count {
		g := &generator{random}
		root := g.schema(4)
		root["$defs"] = map[string]any{"node": g.schema(3), "a/b": g.schema(2), "string": g.schema(2)}
		raw, err := json.Marshal(root)
		if err != nil {
			panic(err) // it has texts, numbers, lists and maps
		}
		list = append(list, string(raw))
	}
	return list
}

type generator struct{ *rand.Rand }

var hostileTexts = []string{"name", "content-type", "constructor", "__proto__", "*/", "/*", "a\nb", "\u2028", "\u202e", "1st", "", "\"", "\\", "`${x}`", "//", "é", "😀",
	"type", "class", "async", "self", "fn", "ID", "userName", "user_name", "@ts-ignore", "%s", "'", "\x00", "unsigned int", "r#x", "A_", "??/", "\\\n"}

func (g *generator) text() string { return hostileTexts[g.IntN(len(hostileTexts))] }

func (g *generator) schema(depth int) map[string]any {
	s := map[string]any{}
	if g.IntN(3) == 0 {
		s["description"] = g.text() + " " + g.text()
	}
	if g.IntN(8) == 0 {
		s["default"] = g.text()
	}
	choice := g.IntN(12)
	if depth == 0 {
		choice = 5 + g.IntN(4)
	}
	switch choice {
	case 0, 1, 2:
		g.object(s, depth)
	case 3:
		s["type"], s["items"] = "array", g.schema(depth-1)
	case 4:
		s["prefixItems"], s["items"] = []any{g.schema(depth - 1), g.schema(depth - 1)}, g.IntN(2) == 0
	case 5:
		s["type"] = []string{"string", "integer", "number", "boolean", "null"}[g.IntN(5)]
	case 6:
		s["type"] = []string{"string", "null"}
	case 7:
		s["enum"] = []any{g.text(), g.text(), 17, -1.5, true, nil}[g.IntN(5):]
	case 8:
		s["$ref"] = []string{"#", "#/$defs/node", "#/$defs/a~1b", "#/$defs/string", "#/$defs/none"}[g.IntN(5)]
	case 9:
		s["anyOf"] = []any{g.schema(depth - 1), g.schema(depth - 1), map[string]any{"type": "null"}}
	case 10:
		g.object(s, depth)
		s["allOf"] = []any{g.schema(depth - 1), map[string]any{"required": []string{g.text()}}}
	case 11:
		g.object(s, depth)
		s["oneOf"] = []any{g.schema(depth - 1), g.schema(depth - 1)}
	}
	return s
}

func (g *generator) object(s map[string]any, depth int) {
	properties := map[string]any{}
	var required []string
	for range g.IntN(5) {
		name := g.text()
		properties[name] = g.schema(depth - 1)
		if g.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	s["type"], s["properties"], s["required"] = "object", properties, required
	switch g.IntN(4) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = g.schema(depth - 1)
	}
}

// Functions whose names and definitions read the same when they stand together have types of
// their own.
func TestDefinitionsOfTwoFunctionsDiffer(t *testing.T) {
	text := ""
	for _, f := range []schematypes.Function{
		{Name: "order", Parameters: []byte(`{"$ref":"#/$defs/ItemLine","$defs":{"ItemLine":{"type":"object","properties":{"a":{"$ref":"#/$defs/ItemLine"}}}}}`)},
		{Name: "order_item", Parameters: []byte(`{"$ref":"#/$defs/Line","$defs":{"Line":{"type":"object","properties":{"b":{"$ref":"#/$defs/Line"}}}}}`)},
	} {
		declared, err := schematypes.TypeScriptFunction(f)
		if err != nil {
			t.Fatal(err)
		}
		text += declared
	}
	for _, name := range []string{"interface order_ItemLine {", "interface order_item_Line {"} {
		if strings.Count(text, name) != 1 {
			t.Errorf("%q is not there once:\n%s", name, text)
		}
	}
}
