package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/hosttest"
)

// AgentKit sends a model the whole error with its stack. Here it is one line
// without stacks and places.
func TestWhatAModelIsToldOfAFailure(t *testing.T) {
	_, noFile := os.Open("/secret/path")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"an error of the tool":        {errors.New("no order 7"), "no order 7"},
		"the first line":              {errors.New("no order 7\ngoroutine 1 [running]"), "no order 7"},
		"the first line with words":   {errors.New("\n  no order 7 \n"), "no order 7"},
		"the message, not the hint":   {host.Errorf(host.NotFound, "no order 7").WithHint("look in /secret/path"), "no order 7"},
		"no path":                     {noFile, "The tool could not use a file it needs."},
		"no path, wrapped":            {host.Errorf(host.Internal, "read config: %w", noFile), "The tool could not use a file it needs."},
		"no path, as text":            {fmt.Errorf("read config: %s", errors.New("open /etc/agent/keys.yaml: no such file or directory")), "read config: open (path): no such file or directory"},
		"no path, of the host's kind": {host.Errorf(host.Internal, "open /home/me/.ssh/id: denied"), "open (path): denied"},
		"no path in quotes":           {errors.New(`stat "/var/lib/x": denied`), `stat "(path)": denied`},
		"no path after a name":        {errors.New("file=/tmp/a at:/opt/x/y"), "file=(path) at:(path)"},
		"no path of one's own":        {errors.New("read ~/keys, ../conf/db.toml and data/users.db"), "read (path), (path) and (path)"},
		"no path anywhere":            {errors.New("cannot import /app/dist/index.mjs."), "cannot import (path)"},
		"no path on Windows":          {errors.New(`open C:\Program Files\Agent\keys.txt: denied, or \\nas\share\x`), "open (path) denied, or (path)"},
		"no path as an address":       {errors.New("load file:///srv/x"), "load (path)"},
		"no place in a program":       {errors.New("boom at pool.go:42 and internal/db/pool.go:42:7: closed"), "boom at (path) and (path): closed"},
		"no module of a program":      {errors.New("node:internal/modules/cjs/loader:1080"), "node:(path)"},
		"no stack of Go":              {errors.New("panic: boom goroutine 7 [running]: main.main()"), "panic: boom"},
		"no stack of JavaScript":      {errors.New("TypeError: x is not a function at Object.run (/app/a.js:1:2) at next (b.js:3:4)"), "TypeError: x is not a function"},
		"no stack of Python":          {errors.New("Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in <module>\nKeyError: 'order'\n"), "KeyError: 'order'"},
		"no address":                  {&url.Error{Op: "Get", URL: "http://10.0.0.1/secret", Err: errors.New("refused")}, "The tool could not reach a server it needs."},
		"no address, as text":         {errors.New("dial tcp 10.0.0.1:5432: connection refused; [fd00::1]:80 too"), "dial tcp (address): connection refused; (address) too"},
		"no credentials":              {errors.New("connect to postgres://app:secret@db/orders: refused"), "connect to (address) refused"},
		"no credentials of any kind":  {errors.New("no postgres://app:a/b=c;d@db/orders, redis://:p@s@10.0.0.1:6379/0 and HTTPS://me:pw@example.com/x"), "no (address), (address) and (address)"},
		"no address of a connection":  {errors.New("read tcp 10.0.0.1:5432->10.0.0.2:80: reset"), "read tcp (address)->(address): reset"},
		"no address without a port":   {errors.New("Get http://10.0.0.1/admin and http://[::1]/x"), "Get (address) and (address)"},
		"no stack of Java":            {errors.New("boom at com.shop.Orders.find(Orders.java:42) at com.shop.Main.main(Native Method)"), "boom"},
		"no stack of what waits":      {errors.New("boom at async Orders.find (file:///app/a.mjs:4:2)"), "boom"},
		"nothing but a path":          {errors.New("/etc/passwd"), "(path)"},
		"a deadline of its own":       {fmt.Errorf("ask: %w", context.DeadlineExceeded), "The tool took too long."},
		"at most 500 bytes":           {errors.New(strings.Repeat("é", 600)), strings.Repeat("é", 250) + "…"},
		"at most 500 bytes of much":   {errors.New(strings.Repeat("/etc/x ", 1<<20)), strings.Repeat("(path) ", 71) + "(pa…"},
		"nothing":                     {errors.New(""), "The tool failed."},
		"white space":                 {errors.New(" \n\t"), "The tool failed."},

		"a pointer into JSON stays": {errors.New(`"/items/0/name" is missing, and/or "/a~1b"`), `"/items/0/name" is missing, and/or "/a~1b"`},
		"a route stays":             {errors.New("GET /v1/orders/7: 404 Not Found"), "GET /v1/orders/7: 404 Not Found"},
		"a page stays":              {errors.New("see https://example.com/docs/errors.html#e7"), "see https://example.com/docs/errors.html#e7"},
		"a page's name stays":       {errors.New("see example.com/docs/errors.html"), "see example.com/docs/errors.html"},
		"a page with an @ stays":    {errors.New("see https://www.npmjs.com/package/@shop/orders"), "see https://www.npmjs.com/package/@shop/orders"},
		"what is at a place stays":  {errors.New("the value at position (3) is wrong, at noon (12:00), by me@example.com"), "the value at position (3) is wrong, at noon (12:00), by me@example.com"},
		"numbers stay":              {errors.New("3/4 of 2024/05/06 at 10:30:00 in v1.2/v1.3, ratio 1:2"), "3/4 of 2024/05/06 at 10:30:00 in v1.2/v1.3, ratio 1:2"},
		"types stay":                {errors.New(`want application/json, got text/html; ^\d+/\w$`), `want application/json, got text/html; ^\d+/\w$`},
		"sentences stay":            {errors.New("No order 7. Ask for the number: it has 8 digits."), "No order 7. Ask for the number: it has 8 digits."},
	} {
		t.Run(name, func(t *testing.T) {
			tool := host.NewTool("fail", "", func(context.Context, *host.Call, struct{}) (string, error) { return "", c.err }, nil)
			got := call(t, tool, `{}`)
			if !got.IsError || got.ContentText() != c.want {
				t.Errorf("the model is told %q (error %t), want %q", got.ContentText(), got.IsError, c.want)
			}
		})
	}
}

// What the model is not told is in the log; what it is told whole is not.
func TestWhatAModelIsNotToldIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []string // of the log; nil if there is nothing to say
	}{
		"a path":                        {errors.New("open /etc/agent/keys.yaml: denied"), []string{"tool failed", "tool=fail", "run=r1", "/etc/agent/keys.yaml", "(path)"}},
		"a stack":                       {errors.New("boom\ngoroutine 1 [running]"), []string{"goroutine 1"}},
		"a cause that the text has not": {&host.Error{Code: host.Internal, Message: "the shop is closed", Err: errors.New("code 17 of 10.0.0.1:80")}, []string{"code 17 of 10.0.0.1:80"}},
		"a sentence":                    {errors.New("no order 7"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := newHost(t, &host.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			tool := host.NewTool("fail", "", func(context.Context, *host.Call, struct{}) (string, error) { return "", c.err }, nil)
			agent := newAgent(t, &host.AgentOptions{Model: hosttest.NewModel(hosttest.Call("fail", `{}`), hosttest.Say("done")), Tools: []*host.Tool{tool}})
			if _, err := h.Run(t.Context(), agent, &host.Request{Run: "r1", Text: "hi"}); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log is %s, without %q", log.String(), want)
				}
			}
			if c.want == nil && log.Len() > 0 {
				t.Errorf("the log is %s, want nothing", log.String())
			}
		})
	}
}
