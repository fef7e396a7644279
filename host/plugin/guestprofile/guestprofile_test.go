package guestprofile_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/agenthost/agenthost/host/plugin/guestprofile"
)

// Whatever order functions are entered and left in, their instructions add up to those of
// the calls, and so do those of the frames.
func TestInstructionsAddUpToThoseOfTheCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, bill := guestprofile.New(), int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			c, spent := p.Begin(), int64(0)
			for range rapid.IntRange(0, 900).Draw(t, "steps") {
				spent += rapid.Int64Range(0, 50).Draw(t, "spent")
				if rapid.Bool().Draw(t, "enters") {
					c.Enter(guestprofile.Named(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "name"), 7), spent)
				} else {
					c.Leave(spent)
				}
			}
			c.Return(spent)
			spent += rapid.Int64Range(0, 50).Draw(t, "host")
			c.Return(spent)
			bill += spent
		}
		sum := int64(0)
		for s := range p.Stacks() {
			sum += s.Instructions
		}
		if sum != bill || p.Instructions() != bill {
			t.Fatalf("stacks have %d instructions, the profile %d, and the calls cost %d", sum, p.Instructions(), bill)
		}
	})
}

func TestDeepAndManyPathsStayWithinBounds(t *testing.T) {
	for name, enter := range map[string]func(c *guestprofile.Call, i int){
		"recursion": func(c *guestprofile.Call, i int) { c.Enter(guestprofile.Named("deeper", 0), int64(i)) },
		"many paths": func(c *guestprofile.Call, i int) {
			c.Enter(guestprofile.Named("", uint32(i)), int64(i))
			c.Leave(int64(i))
		},
		"many deep paths": func(c *guestprofile.Call, i int) {
			c.Enter(guestprofile.Named("", uint32(i)), int64(i))
			if i > 240 {
				c.Leave(int64(i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const entered = 200_000
			p := guestprofile.New()
			c := p.Begin()
			c.Enter(guestprofile.Named("outer", 0), 0)
			for i := range entered {
				enter(c, i)
			}
			c.Return(entered)
			paths, deepest := 0, 0
			for s := range p.Stacks() {
				paths, deepest = paths+1, max(deepest, len(s.Functions))
			}
			if paths > 1<<14 || deepest > 256 || p.Instructions() != entered {
				t.Errorf("%d paths, %d deep, with %d instructions", paths, deepest, p.Instructions())
			}
			var svg bytes.Buffer
			if err := p.WriteSVG(&svg, name); err != nil || svg.Len() > 4<<20 {
				t.Errorf("a graph of %d bytes: %v", svg.Len(), err)
			}
		})
	}
}

// A call that has no profile notes nothing.
func TestNoProfileHasCallsThatNoteNothing(t *testing.T) {
	var p *guestprofile.Profile
	c := p.Begin()
	c.Enter(guestprofile.Named("f", 0), 1)
	c.Leave(2)
	c.Return(3)
}

func TestCallsOfManyGoroutinesShareAProfile(t *testing.T) {
	p := guestprofile.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				c := p.Begin()
				c.Enter(guestprofile.Named("f", 0), 1)
				c.Leave(10)
				c.Return(10)
				_ = p.WriteSVG(io.Discard, "f")
			}
		})
	}
	wg.Wait()
	if p.Calls() != 800 || p.Instructions() != 8000 {
		t.Errorf("%d calls with %d instructions", p.Calls(), p.Instructions())
	}
}

func TestNamesAreFitToBeShown(t *testing.T) {
	for _, c := range []struct {
		claim, name, want string
	}{
		{"a name of Rust is that of its source", "_ZN5hello5greet17h0123456789abcdefE", "hello::greet"},
		{"a function without a name has its number", "", "function 12"},
		{"controls of terminals and lines are taken out", "a\x1b[2J\n\tb\u202e", "a [2J  b "},
		{"a long name is cut", strings.Repeat("x", 1<<20), strings.Repeat("x", 100) + "…"},
		{"markup stays a text", `<script>"&`, `<script>"&`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := guestprofile.Named(c.name, 12).Name; got != c.want {
				t.Errorf("Named(%.40q) = %q, want %q", c.name, got, c.want)
			}
		})
	}
	if f := guestprofile.Imported("env", "log"); f.Name != "env.log" || !f.OfHost {
		t.Errorf("an imported function is %+v", f)
	}
}

// texts returns the elements and the texts of a graph, which has to be whole.
func texts(t interface{ Fatal(...any) }, svg []byte) (elements map[string]int, text string) {
	elements = map[string]int{}
	var all strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return elements, all.String()
		case err != nil:
			t.Fatal("the graph is not XML: ", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
					t.Fatal("the graph has the attribute ", a.Name.Local)
				}
			}
		case xml.CharData:
			all.Write(token)
		}
	}
}

func TestFlameGraphShowsFunctionsByWhatTheyUsed(t *testing.T) {
	p := guestprofile.New()
	c := p.Begin()
	c.Enter(guestprofile.Named("agenthost_tool", 1), 0)
	c.Enter(guestprofile.Named("greet", 2), 1000)
	c.Leave(8000)
	c.Enter(guestprofile.Imported("agenthost_v1", "output_write"), 9000)
	c.Leave(10_000)
	c.Leave(10_000)
	c.Return(10_000)
	var svg bytes.Buffer
	if err := p.WriteSVG(&svg, "hello.wasm tool"); err != nil {
		t.Fatal(err)
	}
	_, text := texts(t, svg.Bytes())
	for _, want := range []string{
		"hello.wasm tool", "10,000 instructions, calls: 1.",
		"agenthost_tool: 10,000 instructions (100.00 %), 2,000 of them its own, entered: 1",
		"greet: 7,000 instructions (70.00 %), 7,000 of them its own, entered: 1",
		"agenthost_v1.output_write: 1,000 instructions (10.00 %)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the graph does not say %q:\n%s", want, text)
		}
	}
}

func TestFlameGraphOfNothingIsAPicture(t *testing.T) {
	var svg bytes.Buffer
	if err := guestprofile.New().WriteSVG(&svg, ""); err != nil {
		t.Fatal(err)
	}
	if elements, text := texts(t, svg.Bytes()); elements["svg"] != 1 || !strings.Contains(text, "0 instructions, calls: 0.") {
		t.Errorf("the graph of nothing: %s", svg.Bytes())
	}
}

// A guest chooses names, and cannot add an element to a graph.
func FuzzFlameGraph(f *testing.F) {
	f.Add("</title><script>alert(1)</script>", "\x00\ufffe\xff")
	f.Add(`"><a href="https://example.com">`, "]]>")
	f.Fuzz(func(t *testing.T, name, title string) {
		p := guestprofile.New()
		c := p.Begin()
		c.Enter(guestprofile.Named(name, 1), 0)
		c.Return(100)
		var svg bytes.Buffer
		if err := p.WriteSVG(&svg, title); err != nil {
			t.Fatal(err)
		}
		elements, _ := texts(t, svg.Bytes())
		delete(elements, "style")
		if got := fmt.Sprint(elements); got != "map[rect:3 svg:3 text:4 title:2]" {
			t.Errorf("the graph of %q and %q has the elements %s", name, title, got)
		}
	})
}
