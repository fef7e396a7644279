package tenants

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/agenthost/agenthost/host/usage"
)

// Duration is a time.Duration that is a text such as "720h" in JSON.
type Duration time.Duration

// MarshalText returns the text of time.Duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads a text of time.ParseDuration. Code invalid_argument for another.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return invalid("%.40q is no duration", text).WithHint("write it as 90s or 24h")
	}
	*d = Duration(v)
	return nil
}

// planFields are the fields of a Plan that are JSON by themselves.
type planFields Plan

// planJSON is a Plan as JSON.
type planJSON struct {
	planFields
	Usage   *usageJSON     `json:"usage,omitempty"`
	Sandbox map[string]any `json:"sandbox,omitempty"`
	Run     map[string]any `json:"run,omitempty"`
}

// usageJSON is a usage.Plan as JSON.
type usageJSON struct {
	Window    string      `json:"window,omitempty"`
	Limits    []limitJSON `json:"limits,omitempty"`
	MaxOutput int         `json:"max_output,omitempty"`
	Rate      int         `json:"rate,omitempty"`
	Burst     int         `json:"burst,omitempty"`
	MaxWait   Duration    `json:"max_wait,omitzero"`
}

type limitJSON struct {
	Resource string `json:"resource"`
	Amount   int64  `json:"amount,omitempty"`
	Window   string `json:"window,omitempty"`
}

// MarshalJSON writes the plan without the fields that are zero.
func (p Plan) MarshalJSON() ([]byte, error) {
	out := planJSON{planFields: planFields(p), Sandbox: limitsJSON(p.Sandbox), Run: limitsJSON(p.Run)}
	u := &usageJSON{Window: p.Usage.Window.String(), MaxOutput: p.Usage.MaxOutput, Rate: p.Usage.Rate, Burst: p.Usage.Burst, MaxWait: Duration(p.Usage.MaxWait)}
	for _, l := range p.Usage.Limits {
		u.Limits = append(u.Limits, limitJSON{Resource: l.Resource.Key(), Amount: l.Amount, Window: l.Window.String()})
	}
	if !reflect.ValueOf(*u).IsZero() {
		out.Usage = u
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads a plan. Code invalid_argument for an unknown member, resource,
// window or limit. It does not [Plan.Check] the plan.
func (p *Plan) UnmarshalJSON(raw []byte) error {
	in := planJSON{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&in); err != nil {
		return invalid("the plan: %v", err)
	}
	out := Plan(in.planFields)
	if in.Usage != nil {
		u, err := in.Usage.plan()
		if err != nil {
			return err
		}
		out.Usage = *u
	}
	if err := readLimits(&out.Sandbox, "sandbox", in.Sandbox); err != nil {
		return err
	}
	if err := readLimits(&out.Run, "run", in.Run); err != nil {
		return err
	}
	*p = out
	return nil
}

func (u *usageJSON) plan() (*usage.Plan, error) {
	out := &usage.Plan{MaxOutput: u.MaxOutput, Rate: u.Rate, Burst: u.Burst, MaxWait: time.Duration(u.MaxWait)}
	var err error
	if out.Window, err = window(u.Window); err != nil {
		return nil, err
	}
	for _, l := range u.Limits {
		limit := usage.Limit{Amount: l.Amount}
		if limit.Resource, err = usage.ParseResource(l.Resource); err != nil {
			return nil, err
		}
		if limit.Window, err = window(l.Window); err != nil {
			return nil, err
		}
		out.Limits = append(out.Limits, limit)
	}
	return out, nil
}

func window(text string) (usage.Window, error) {
	if text == "" {
		return usage.Window{}, nil
	}
	return usage.ParseWindow(text)
}

var durationType = reflect.TypeFor[time.Duration]()

// limitsJSON returns the fields of a struct of limits that are not zero.
func limitsJSON(limits any) map[string]any {
	out := map[string]any{}
	for field, v := range reflect.ValueOf(limits).Fields() {
		switch {
		case v.IsZero():
		case v.Type() == durationType:
			out[snakeCase(field.Name)] = time.Duration(v.Int()).String()
		default:
			out[snakeCase(field.Name)] = v.Int()
		}
	}
	return out
}

// readLimits sets the fields of a struct of limits, to which into points.
func readLimits(into any, name string, members map[string]any) error {
	read := 0
	for field, v := range reflect.ValueOf(into).Elem().Fields() {
		member := snakeCase(field.Name)
		given, present := members[member]
		if !present {
			continue
		}
		read++
		n, err := int64(0), error(nil)
		switch text := given.(type) {
		case string:
			var d Duration
			if v.Type() != durationType {
				return invalid("limit %s.%s is a text, and it is a number", name, member)
			}
			err = d.UnmarshalText([]byte(text))
			n = int64(d)
		case json.Number:
			if v.Type() == durationType {
				return invalid("limit %s.%s is a number, and it is a duration", name, member).WithHint("write it as 90s or 24h")
			}
			n, err = text.Int64()
		default:
			return invalid("limit %s.%s is neither a number nor a duration", name, member)
		}
		if err != nil || v.OverflowInt(n) {
			return invalid("limit %s.%s is %v", name, member, given).WithHint("write a whole number, or a duration such as 90s")
		}
		v.SetInt(n)
	}
	if read < len(members) {
		for member := range members {
			if !isLimit(into, member) {
				return invalid("there is no limit %s.%.60s", name, member).WithHint("limits have the names of their Go fields in snake case: run_timeout")
			}
		}
	}
	return nil
}

func isLimit(limits any, member string) bool {
	for field := range reflect.TypeOf(limits).Elem().Fields() {
		if snakeCase(field.Name) == member {
			return true
		}
	}
	return false
}

// negative returns the name of the first limit that is negative.
func negative(limits any) string {
	for field, v := range reflect.ValueOf(limits).Fields() {
		if v.Int() < 0 {
			return snakeCase(field.Name)
		}
	}
	return ""
}

func isSet(limits any, name string) bool { return !reflect.ValueOf(limits).FieldByName(name).IsZero() }

// snakeCase returns the name of a field in snake case: KVBytes is kv_bytes.
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
