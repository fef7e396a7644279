package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/internal/jsondoc"
	"github.com/agenthost/agenthost/internal/longtest"
)

// maxTestStack is what one goroutine may use here: more ends the test process.
const maxTestStack = 16 << 20

// deepSchema draws a schema of definitions that lead to each other by every keyword
// that applies to the value itself, and at the end to the values within it.
func deepSchema() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		n := rapid.IntRange(1, maxChain).Draw(t, "definitions")
		for i := range n {
			next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			keyword := rapid.SampledFrom([]string{`{"allOf":[%s]}`, `{"anyOf":[%s]}`, `{"oneOf":[%s]}`, `{"not":{"not":%s}}`, `{"if":%s}`, `{"if":true,"then":%s}`,
				`{"if":false,"else":%s}`, `{"dependentSchemas":{"a":%s}}`, `%s`}).Draw(t, "keyword")
			fmt.Fprintf(&b, `"d%d":%s,`, i, strings.Replace(keyword, "%s", next, 1))
		}
		below := rapid.SampledFrom([]string{"items", "additionalProperties", "contains", "unevaluatedItems", "unevaluatedProperties"}).Draw(t, "below")
		return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s"d%d":{%q:{"$ref":"#"}}}}`, b.String(), n, below)
	})
}

// The stack that a validation takes has a bound for every schema that compiles and
// every value: the process ends here if one takes more.
func TestStackOfValidationIsBounded(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(maxTestStack))
	compiled, ended := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, err := Compile(t.Context(), json.RawMessage(deepSchema().Draw(t, "schema")))
		if err != nil {
			if !strings.Contains(err.Error(), "apply to one value") {
				t.Fatal(err)
			}
			return
		}
		compiled++
		depth := rapid.IntRange(1, maxValueDepth).Draw(t, "depth")
		value := strings.Repeat(`[`, depth-1) + `[]` + strings.Repeat(`]`, depth-1)
		if rapid.Bool().Draw(t, "objects") {
			value = strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
		}
		v, _, err := decodeBounded([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		c := s.newCheck(t.Context(), 1_000_000, 0)
		if err := c.validate(v, faultOf); isA[TooManyChecksError](err) {
			ended++
		}
		if c.checker.steps > maxNestedRules+1 {
			t.Fatalf("%d rules apply within each other, want at most %d", c.checker.steps, maxNestedRules)
		}
	})
	t.Logf("%d schemas compile, %d values end at a bound", compiled, ended)
}

// A result schema of 1 kB and an answer nested 9,985 deep ended the process.
func TestDeepAnswersBesideManyZeros(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(maxTestStack))
	var b strings.Builder
	for i := range 24 {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"}]},`, i, i+1)
	}
	s, err := Compile(t.Context(), json.RawMessage(`{"$ref":"#/$defs/d0","$defs":{`+b.String()+`"d24":{"items":{"$ref":"#/$defs/d0"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	deep := func(n int) json.RawMessage {
		zeros := 100_000
		if n < 100 {
			zeros = 100
		}
		return json.RawMessage(`[` + strings.Repeat(`[`, n-1) + strings.Repeat(`]`, n-1) + strings.Repeat(`,0`, zeros) + `]`)
	}
	for depth, code := range map[int]string{9985: misfit, maxValueDepth + 1: misfit, maxValueDepth: tooManyChecks, 50: ""} {
		if err := s.Validate(t.Context(), deep(depth)); kindOf(err) != code {
			t.Errorf("an answer %d deep: %v, want %q", depth, err, code)
		}
		if err := s.ValidateUnseen(t.Context(), deep(depth)); kindOf(err) != code {
			t.Errorf("unseen, an answer %d deep: %v, want %q", depth, err, code)
		}
	}
}

func TestSchemasThatApplyTooOftenToOneValue(t *testing.T) {
	chain := func(n int, end string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s"d%d":%s}}`, b.String(), n, end)
	}
	for name, c := range map[string]struct{ schema, says string }{
		"as often as it may":      {chain(maxChain-2, `{"type":"string"}`), ""},
		"once more":               {chain(maxChain-1, `{"type":"string"}`), "more than 128"},
		"10,000 times":            {chain(10_000, `{"type":"string"}`), "more than 128"},
		"itself":                  {`{"$ref":"#"}`, "by way of itself"},
		"itself, by allOf":        {`{"allOf":[{"anyOf":[{"type":"string"},{"$ref":"#"}]}]}`, "by way of itself"},
		"itself, if":              {`{"if":{"$ref":"#"}}`, "by way of itself"},
		"itself, by dependencies": {`{"dependentSchemas":{"a":{"$ref":"#"}}}`, "by way of itself"},
		"itself, below":           {`{"items":{"$ref":"#"}}`, ""},
		"itself, never used":      {`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(t.Context(), json.RawMessage(c.schema))
			if c.says == "" && err != nil || c.says != "" && (kindOf(err) != misfit || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("Compile: %v, want %q", err, c.says)
			}
		})
	}
}

func oldEnum(values string) string {
	return `{"$schema":"http://json-schema.org/draft-07/schema#","enum":` + values + `}`
}

// signedLists is a list of n lists of numbers that differ in signs, which the hash of
// the library does not see.
func signedLists(n, numbers int) string {
	return `[` + strings.Join(slices.Collect(func(yield func(string) bool) {
		for i := range n {
			signs := fmt.Sprintf("%0*b", numbers, i)
			if !yield(`[` + strings.NewReplacer("0", "9e390,", "1", "-9e390,").Replace(signs) + `0]`) {
				return
			}
		}
	}), ",") + `]`
}

func TestSchemasAreRefusedBeforeTheyAreCompiled(t *testing.T) {
	nested := func(n int, open, end string) string {
		return strings.Repeat(open, n-1) + `{}` + strings.Repeat(end, n-1)
	}
	const deep, long = "deeper than 64", "takes too long to compile"
	for name, c := range map[string]struct{ schema, says string }{
		"not, 64 levels":         {nested(64, `{"not":`, `}`), ""},
		"not, 65 levels":         {nested(65, `{"not":`, `}`), deep},
		"not, 500 levels":        {nested(500, `{"not":`, `}`), deep},
		"not, 4,000 levels":      {nested(4000, `{"not":`, `}`), "nested deeper than 512"},
		"properties, 64 levels":  {nested(64, `{"properties":{"a":`, `}}`), ""},
		"properties, 65 levels":  {nested(65, `{"properties":{"a":`, `}}`), deep},
		"allOf, 65 levels":       {nested(65, `{"allOf":[`, `]}`), deep},
		"$defs, 65 levels":       {nested(65, `{"$defs":{"a":`, `}}`), deep},
		"items, 65 levels":       {nested(65, `{"items":`, `}`), deep},
		"a const, 500 levels":    {`{"const":` + nested(500, `{"not":`, `}`) + `}`, ""},
		"a const that is used":   {`{"$ref":"#/const","const":` + nested(100, `{"not":`, `}`) + `}`, deep},
		"no keyword, not used":   {`{"x":` + nested(100, `{"not":`, `}`) + `}`, ""},
		"no keyword, used":       {`{"$ref":"#/x","x":` + nested(100, `{"not":`, `}`) + `}`, deep},
		"50,000 parts":           {`{"anyOf":[` + repeated(50_000, `{"a":1}`, ",") + `]}`, long},
		"parts of a long name":   {`{"properties":{"` + strings.Repeat("x", 100_000) + `":{"properties":{` + repeated(8000, `"{n}":{"type":"string"}`, ",") + `}}}}`, long},
		"20,000 addresses":       {`{"anyOf":[` + repeated(20_000, `{"$id":"a{n}"}`, ",") + `]}`, long},
		"a long address":         {`{"$id":"http://a/` + strings.Repeat("x", 200_000) + `","anyOf":[` + repeated(8000, `{"$ref":"#/$defs/a"}`, ",") + `],"$defs":{"a":{}}}`, long},
		"25,000 anchors":         {`{"items":{"anyOf":[` + repeated(25_000, `{"$anchor":"{n}"}`, ",") + `]}}`, long},
		"places of no keyword":   {`{"anyOf":[` + repeated(5000, `{"$ref":"#/x/d{n}"}`, ",") + `],"x":{` + repeated(5000, `"d{n}":{"type":"string"}`, ",") + `}}`, long},
		"one in another":         {`{"anyOf":[` + repeated(500, `{"$ref":"#/x/anyOf/{n}"}`, ",") + `,{"$ref":"#/x"}],"x":{"anyOf":[` + repeated(9000, `{"a":{n}}`, ",") + `]}}`, ""},
		"a pattern of millions":  {`{"pattern":"` + strings.Repeat("a{1000}", 200) + `"}`, "instructions"},
		"many such":              {`{"anyOf":[` + repeated(200, `{"pattern":"a{900}{n}"}`, ",") + `]}`, "instructions"},
		"classes of letters":     {`{"pattern":"[` + strings.Repeat(`\\pL`, 20_000) + `]"}`, "too long to read"},
		"letters of any case":    {`{"pattern":"` + strings.Repeat(`(?i)[a-\\x{1E943}]`, 200) + `"}`, "too long to read"},
		"names that are such":    {`{"patternProperties":{"` + strings.Repeat("a{1000}", 200) + `":{}}}`, "instructions"},
		"values of one hash":     {oldEnum(signedLists(200, 20)), "to be compared"},
		"few long values":        {oldEnum(signedLists(20, 4000)), "to be compared"},
		"names of one hash":      {`{"required":` + signedLists(200, 20) + `}`, "to be compared"},
		"types of one hash":      {`{"items":{"type":` + signedLists(200, 20) + `}}`, "to be compared"},
		"members of one hash":    {`{"dependentRequired":{"a":` + signedLists(200, 20) + `}}`, "to be compared"},
		"dependencies of one":    {`{"dependencies":{"a":` + signedLists(200, 20) + `}}`, "to be compared"},
		"values of a new draft":  {`{"enum":` + signedLists(200, 20) + `}`, ""},
		"values in data":         {`{"$schema":"http://json-schema.org/draft-07/schema#","const":{"enum":` + signedLists(200, 20) + `}}`, ""},
		"200 objects":            {oldEnum(`[` + repeated(200, `{"a":{n},"b":"{n}"}`, ",") + `]`), ""},
		"10,000 names":           {oldEnum(`[` + repeated(10_000, `"name{n}"`, ",") + `]`), ""},
		"a generated service":    {generatedService(640, "$defs"), ""},
		"the same of components": {generatedService(640, "components/schemas"), ""},
	} {
		if longtest.Race && len(c.schema) > 100_000 {
			continue // one goroutine reads it
		}
		t.Run(name, func(t *testing.T) {
			_, err := Compile(t.Context(), json.RawMessage(c.schema))
			if c.says == "" && err != nil || c.says != "" && (kindOf(err) != misfit || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("Compile: %s, want %q", cutText(fmt.Sprint(err), 300), c.says)
			}
			if err != nil && len(err.Error()) > 2*maxCompileError {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

// What the worst known values ask for is paid for step by step: no validation does
// more work than a value gets, none goes on for long without giving way to others,
// and another of the same schema gets its answer meanwhile.
func TestWorstValuesStayWithinTheirWork(t *testing.T) {
	const given = 300_000
	all := worstCases()
	for _, c := range all[:longtest.Alone(3, len(all))] {
		t.Run(c.name, func(t *testing.T) {
			s, err := Compile(t.Context(), json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			v, _, err := decodeBounded([]byte(c.value))
			if err != nil {
				t.Fatal(err)
			}
			check := s.newCheck(t.Context(), 0, 0)
			check.checker.work.left = given
			pieces, before := 0, given
			longest := 0
			check.checker.work.yield = func() {
				if pieces++; pieces == 1 {
					_ = s.newCheck(t.Context(), 0, 0).validate(nil, faultOf) // nothing is held
				}
				longest, before = max(longest, before-check.checker.work.left), check.checker.work.left
			}
			_, err = check.checker.fits(s.rule, v)
			if err != nil && !isA[TooManyChecksError](err) {
				t.Errorf("validation ends with %v", err)
			}
			if longest > pieceWork+len(c.value)/bytesPerWork+maxFormatPattern*patternByteWork {
				t.Errorf("a piece is %d of work, want about %d", longest, pieceWork)
			}
		})
	}
}

// Each null of a model's arguments looks through all names that are required: 20,000
// of them and as many nulls took 6.6 s.
func TestNullsAreLookedForWithinTheWork(t *testing.T) {
	s, err := Compile(t.Context(), json.RawMessage(`{"items":{"properties":{"a":{"type":"string"}},"required":[`+repeated(10_000, `"m{n}"`, ",")+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	v, nodes, err := decodeBounded([]byte(`[` + repeated(10_000, `{"a":null}`, ",") + `]`))
	if err != nil {
		t.Fatal(err)
	}
	c := s.newCheck(t.Context(), nodes, 0)
	if _, err := c.withoutNulls(v); !isA[TooManyChecksError](err) {
		t.Errorf("withoutNulls: %v, want that it takes too many checks", err)
	}
	few, err := s.newCheck(t.Context(), 0, 0).withoutNulls(v.([]any)[:2])
	if want := []any{map[string]any{}, map[string]any{}}; err != nil || !jsondoc.Equal(few, want) {
		t.Errorf("withoutNulls: %v, %v, want %v", few, err, want)
	}
}

func TestValidationEndsWithItsContext(t *testing.T) {
	s, err := Compile(t.Context(), json.RawMessage(manyTimes(`{}`)))
	if err != nil {
		t.Fatal(err)
	}
	left := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if err := s.Validate(ctx, json.RawMessage(`7`)); kindOf(err) != ended || !errors.Is(err, left) {
		t.Errorf("ValidateContext: %v, want %s and its cause", err, ended)
	}
	if _, err := Compile(ctx, json.RawMessage(`{"type":"string"}`)); kindOf(err) != ended || !errors.Is(err, left) {
		t.Errorf("Compile: %v, want %s and its cause", err, ended)
	}
	if err := s.Validate(t.Context(), json.RawMessage(`7`)); kindOf(err) != tooManyChecks {
		t.Errorf("Validate: %v, want %s", err, tooManyChecks)
	}
}

// A sentence about what does not fit is bounded, whatever does not fit.
func TestFaultsAreTold(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	for name, c := range map[string]struct{ schema, value, says string }{
		"a long text":     {`{"pattern":"^a$"}`, `"` + long + `"`, "…' does not match pattern '^a$'"},
		"a long name":     {`{"additionalProperties":{"type":"string"}}`, `{"` + long + `":1}`, "…: got number, want string"},
		"many strangers":  {`{"additionalProperties":false}`, `{` + repeated(1000, `"m{n}":1`, ",") + `}`, "not allowed"},
		"many missing":    {`{"required":[` + repeated(1000, `"m{n}"`, ",") + `]}`, `{}`, "missing properties 'm0', 'm1'"},
		"many choices":    {`{"enum":[` + repeated(1000, `"m{n}"`, ",") + `]}`, `1`, "value must be one of 'm0', 'm1'"},
		"many faults":     {`{"items":{"type":"string"}}`, `[` + repeated(1000, `{n}`, ",") + `]`, "and 995 more"},
		"faults for ever": {manyTimes(`{"type":"string"}`), `[]`, "/: got array, want string"},
		"too few of many": {`{"contains":{"type":"number"},"minContains":1000}`, `[` + repeated(999, `{n}`, ",") + `]`, "but matched 999 items"},
		"too many":        {`{"contains":{"type":"number"},"maxContains":3}`, `[1,2,3,4,5]`, "max 3 items"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(t.Context(), json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Validate(t.Context(), json.RawMessage(c.value))
			if kindOf(err) != misfit || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 2000 {
				t.Errorf("Validate: %s, want %q in at most 2000 bytes", cutText(fmt.Sprint(err), 3000), c.says)
			}
		})
	}
}

// A count that no int holds would be 0 to the library: maxItems of 1e30 refused every
// list.
func TestCountsThatNoIntHoldsAreRefused(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"maxItems":1e30}`, "maxItems"},
		{`{"properties":{"a":{"maxLength":99999999999999999999}}}`, "maxLength"},
		{`{"minProperties":9223372036854775808.0}`, "minProperties"},
		{`{"maxItems":9223372036854775807,"minLength":1e3}`, ""},
		{`{"maximum":1e30,"properties":{"maxItems":{"const":1e30}}}`, ""},
	} {
		_, err := Compile(t.Context(), json.RawMessage(c.schema))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want+" is more than 9223372036854775807") {
			t.Errorf("%s: %v, want %q in it", c.schema, err, c.want)
		}
	}
}
