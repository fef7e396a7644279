// Command everything is a plugin with one of everything that the kit offers, and
// with handlers that misbehave. Tests of hosts run it.
package main

import (
	"errors"

	"github.com/agenthost/agenthost/pdk/go/pdk"
)

func init() {
	pdk.Describe(pdk.Manifest{
		Name: "everything", Version: "1.0.0", Description: "One of everything.",
		Permissions: pdk.Permissions{State: pdk.AccessWrite, Messages: true},
	})
	wellBehaved()
	misbehaved()
	processors()
	pdk.Router("first", route)
	pdk.Provider("season", provide)
	pdk.Observer("season", observe)
}

func main() {}

const anyArguments = `{"type":"object"}`

func wellBehaved() {
	pdk.Tool("echo", "Returns its arguments.", anyArguments, func(c *pdk.Call) error {
		c.Return(c.Arguments)
		return nil
	}).ReadOnly = true
	pdk.Tool("remember", "Adds its arguments to the state, by its result and by host operations.", anyArguments, func(c *pdk.Call) error {
		revision, err := pdk.PatchState(pdk.Set("/early", c.Arg("value")))
		if err != nil {
			return err
		}
		value, _, err := pdk.State("/early")
		if err != nil {
			return err
		}
		c.Patch(pdk.Set("/late", c.Arg("value")))
		c.JSON().BeginObject().Key("read").Raw(value).Key("revision").Int(revision).EndObject()
		return nil
	})
	pdk.Tool("report", "Emits progress, logs, leaves an artifact and schedules an agent.", anyArguments, func(c *pdk.Call) error {
		pdk.Log(pdk.LevelWarn, "reporting")
		if err := pdk.Emit("progress", `{"done":1,"total":2}`); err != nil {
			return err
		}
		c.Artifact("report.txt", "", pdk.TextPart("all is well"))
		if agent := c.String("agent"); agent != "" {
			c.Schedule(agent)
		}
		c.Text("done")
		return nil
	})
	pdk.Tool("ask", "Asks a person and returns the answer.", anyArguments, func(c *pdk.Call) error {
		if answer, ok := c.Answered(); ok {
			c.Return(answer)
			return nil
		}
		c.Interrupt("Go on?", c.Arguments)
		return nil
	}).NeedsApproval = true
	pdk.Tool("call", "Runs the host operation op with request.", anyArguments, func(c *pdk.Call) error {
		response, err := pdk.HostCall(c.String("op"), c.Arg("request"))
		if err != nil {
			return err
		}
		c.Return(response)
		return nil
	})
}

func misbehaved() {
	pdk.Tool("fail", "Fails with the given code and message.", anyArguments, func(c *pdk.Call) error {
		if code := c.String("code"); code != "" {
			return &pdk.Error{Code: pdk.Code(code), Message: c.String("message"), Retryable: c.Bool("retryable")}
		}
		return errors.New(c.String("message"))
	})
	pdk.Tool("panic", "Panics with the given message.", anyArguments, func(c *pdk.Call) error {
		panic(c.String("message"))
	})
	pdk.Tool("spin", "Never returns.", anyArguments, func(c *pdk.Call) error {
		for n := 0; ; n++ {
			sink = n
		}
	})
	pdk.Tool("grow", "Takes memory until there is none.", anyArguments, func(c *pdk.Call) error {
		for {
			hoard = append(hoard, make([]byte, 1<<20))
		}
	})
	pdk.Tool("recurse", "Calls itself for ever.", anyArguments, func(c *pdk.Call) error {
		sink = recurse(1)
		return nil
	})
	pdk.Tool("lie", "Answers with what is not JSON.", anyArguments, func(c *pdk.Call) error {
		c.Return(`{"content`)
		return nil
	})
	pdk.Tool("shout", "Logs n bytes.", anyArguments, func(c *pdk.Call) error {
		for n := c.Int("n"); n > 0; n -= 1000 {
			pdk.Log(pdk.LevelInfo, string(make([]byte, min(n, 1000))))
		}
		return nil
	})
}

// sink and hoard keep the compiler from removing what misbehaves.
var (
	sink  int
	hoard [][]byte
)

func recurse(n int) int {
	if n == 0 {
		return 0
	}
	return recurse(n+1) + sink
}

func processors() {
	pdk.Processor("upper", func(p *pdk.Process) error {
		p.MapStrings(upper)
		return nil
	})
	pdk.Processor("replace_all", func(p *pdk.Process) error {
		for i, m := range p.Messages() {
			p.Replace(i, m)
		}
		return nil
	})
	pdk.OutlineProcessor("newest", func(p *pdk.Process) error {
		keep, ok := p.Config.Int()
		if !ok || keep < 1 {
			return pdk.Errorf(pdk.InvalidArgument, "newest is configured with %q, not with how many messages to keep", p.Config)
		}
		if drop := p.Outline().Len() - int(keep); drop > 0 {
			p.Drop(0, drop)
			var w pdk.Writer
			p.Report(w.BeginObject().Key("dropped").Int(int64(drop)).EndObject().Value())
		}
		return nil
	})
	pdk.OutlineProcessor("peek", func(p *pdk.Process) error {
		messages, err := pdk.MessagesGet(0)
		if err != nil {
			return err
		}
		count, err := pdk.TokensCount("", messages[0].Text())
		if err != nil {
			return err
		}
		var w pdk.Writer
		w.BeginObject().Key("text").Str(messages[0].Text()).Key("tokens").Int(int64(count.Tokens[0]))
		p.Report(w.Key("exact").Bool(count.Exact).EndObject().Value())
		return nil
	}).Tokens.Encoding = "o200k_base"
	pdk.OutlineProcessor("wrong", func(p *pdk.Process) error {
		p.Drop(0, p.Outline().Len()+1)
		return nil
	})
}

func upper(text string) string {
	out := []byte(text)
	for i, b := range out {
		if 'a' <= b && b <= 'z' {
			out[i] = b - 'a' + 'A'
		}
	}
	return string(out)
}

func route(r *pdk.Route) error {
	switch {
	case r.CallCount > 0:
		r.Reason("somebody has answered")
	case len(r.Agents) == 0:
		r.Delegate("default")
	default:
		r.Next(r.Agents[0].Name)
		r.Reason("it stands first")
	}
	return nil
}

func provide(p *pdk.Provide) error {
	p.Instruct("It is winter.")
	p.Insert(pdk.NewMessage(pdk.RoleUser, pdk.TextPart("I live in Oslo.")))
	p.Tools("echo")
	return nil
}

func observe(o *pdk.Observe) error {
	if o.Err != nil {
		pdk.Log(pdk.LevelError, o.Err.Message)
	}
	_, err := pdk.PatchState(pdk.Set("/observed", "true"))
	return err
}
