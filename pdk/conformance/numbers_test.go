package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Scenario: kits pass over lists of numbers quickly, and read them as every reader of JSON does.

// pieces make lists, most of which are JSON.
var pieces = []string{"1", "23", "456", "78901234", "0", "10", "9007199254740993", "-5", "1.5", "2e3", "3E+2", "\"a,1]\"", "null", "[7,8]", "{\"b\":[9,1]}", "[]"}

// wrong are pieces that are no values.
var wrong = []string{"", "01", "1.", "-", "+1", "1e", "1 2", "1]", "12a", "[3,04]", "[5,,6]", "é"}

func TestListsOfNumbersAreReadAsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for language, build := range guests {
		p := load(t, build(t))
		for range 200 {
			list := make([]string, 1+random.IntN(12))
			for i := range list {
				if list[i] = pieces[random.IntN(4)]; random.IntN(3) == 0 {
					list[i] = pieces[random.IntN(len(pieces))]
				}
			}
			if random.IntN(2) == 0 {
				list[random.IntN(len(list))] = wrong[random.IntN(len(wrong))]
			}
			text := "[" + strings.Join(list, []string{",", ", ", " ,", ",\n"}[random.IntN(4)]) + "]"
			input := fmt.Sprintf(`{"tool":"vector","arguments":{"a":%s}}`, text)
			result, err := p.Call(t.Context(), "acme", "tool", []byte(input), nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", language, text, err)
			}
			if result.GuestError == json.Valid([]byte(text)) {
				t.Errorf("%s: %s is answered with %s", language, text, result.Output)
			}
		}
	}
}

// A kit that keeps columns in 32 bits refuses larger numbers: one that cut them would have a
// processor take a conversation for a short one.
func TestLargeNumbersOfOutlinesAreReadOrRefused(t *testing.T) {
	for language, build := range guests {
		p := load(t, build(t))
		for _, n := range []int64{1<<31 - 1, 1 << 31, 1 << 32, 1<<53 - 1} {
			input := fmt.Sprintf(`{"processor":"outline","model":"m","outline":{"tools":[],"roles":"a","count":1,"bytes":[%d],"chars":[1],"parts":[1]}}`, n)
			result, err := p.Call(t.Context(), "acme", "process", []byte(input), nil)
			if err != nil {
				t.Fatalf("%s: %s: %v", language, input, err)
			}
			if result.GuestError && n >= 1<<31 {
				continue
			}
			answer, _ := normal(decoded(t, string(result.Output)), true).(object)
			report, _ := answer["report"].(object)
			outline, _ := report["outline"].(object)
			if got, want := fmt.Sprint(outline["bytes"]), fmt.Sprintf("[%d]", n); got != want {
				t.Errorf("%s: %s is read as %s", language, want, got)
			}
		}
	}
}

func TestColumnsOfOutlinesAreReadHoweverTheyAreWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	spellings := []string{"%d", "%d", "%d", " %d", "%d ", "%d.0", "%de0", "%d0e-1"}
	for language, build := range guests {
		p := load(t, build(t))
		for range 50 {
			n := 1 + random.IntN(20)
			column := func() (written, values string) {
				var items, digits []string
				for range n {
					v := 1 + random.IntN([]int{10, 1000, 1<<31 - 2}[random.IntN(3)])
					items = append(items, fmt.Sprintf(spellings[random.IntN(len(spellings))], v))
					digits = append(digits, fmt.Sprint(v))
				}
				return "[" + strings.Join(items, []string{",", ", "}[random.IntN(2)]) + "]", fmt.Sprint(digits)
			}
			bytes, wantBytes := column()
			chars, wantChars := column()
			rows := `[0, 0 ,"call","a]","[b"]`
			if n > 1 {
				rows += fmt.Sprintf(",\n[%d.0,0,\"result\",\"\\u0061\",\"b\"]", n-1)
			}
			input := fmt.Sprintf(`{"processor":"outline","model":"m","outline":{"tools":[%s],"roles":%q,"count":%d,"bytes":%s,"chars": %s ,"parts":[1%s]}}`,
				rows, strings.Repeat("a", n), n, bytes, chars, strings.Repeat(",1", n-1))
			result, err := p.Call(t.Context(), "acme", "process", []byte(input), nil)
			if err != nil || result.GuestError {
				t.Fatalf("%s: %s: %s, %v", language, input, result.Output, err)
			}
			answer, _ := normal(decoded(t, string(result.Output)), true).(object)
			report, _ := answer["report"].(object)
			outline, _ := report["outline"].(object)
			if fmt.Sprint(outline["bytes"]) != wantBytes || fmt.Sprint(outline["chars"]) != wantChars {
				t.Errorf("%s: %s is read as %v", language, input, outline)
			}
		}
	}
}
