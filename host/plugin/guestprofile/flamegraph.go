package guestprofile

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/agenthost/agenthost/internal/termtext"
)

// The measures of a flame graph, in pixels.
const (
	graphWidth = 1200
	headHeight = 40
	rowHeight  = 18
	minWidth   = 0.4 // of a frame that is drawn
	minText    = 24  // width of a frame that has room for text
)

// maxFrames is how many frames a flame graph has. The widest are drawn.
const maxFrames = 5000

// frame is a call path with its width in the graph.
type frame struct {
	function   Function
	own, total int64
	entered    int64
	called     []*frame // the widest first
}

// WriteSVG draws the profile as a flame graph: a picture whose frames are functions, as wide
// as the instructions that they used, above those that they call. It is whole in itself: it
// has no script and refers to nothing. The title is shown above it.
func (p *Profile) WriteSVG(w io.Writer, title string) error {
	p.mu.Lock()
	root := p.root.frame(Function{Name: "all calls"})
	root.entered = p.calls
	p.mu.Unlock()
	g := &graph{out: bufio.NewWriter(w), total: root.total, least: root.least()}
	g.write(root, title)
	return g.out.Flush()
}

// frame returns the frame of a path that ends with a function.
func (n *node) frame(f Function) *frame {
	r := &frame{function: f, own: n.own, total: n.own, entered: n.entered}
	for called, c := range n.called {
		next := c.frame(called)
		r.called, r.total = append(r.called, next), r.total+next.total
	}
	slices.SortFunc(r.called, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(b.total, a.total), compareFunctions(a.function, b.function))
	})
	return r
}

// least returns the instructions of the narrowest frame that is drawn.
func (f *frame) least() int64 {
	var totals []int64
	var walk func(*frame)
	walk = func(f *frame) {
		totals = append(totals, f.total)
		for _, c := range f.called {
			walk(c)
		}
	}
	walk(f)
	visible := max(1, int64(float64(f.total)*minWidth/graphWidth))
	if len(totals) <= maxFrames {
		return visible
	}
	slices.SortFunc(totals, func(a, b int64) int { return cmp.Compare(b, a) })
	return max(visible, totals[maxFrames-1]+1)
}

// rows returns how many rows a frame and those below it take.
func (f *frame) rows(least int64) int {
	deepest := 0
	for _, c := range f.called {
		if c.total >= least {
			deepest = max(deepest, c.rows(least))
		}
	}
	return deepest + 1
}

// graph is a flame graph that is being written. Errors stay in out.
type graph struct {
	out   *bufio.Writer
	total int64
	least int64
}

const graphStyle = `text{font:12px monospace;fill:#111}.f rect{stroke:#fff;stroke-width:.5}.f:hover rect{stroke:#000;stroke-width:2}`

func (g *graph) write(root *frame, title string) {
	height := headHeight + rowHeight*root.rows(g.least) + rowHeight
	fmt.Fprintf(g.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", graphWidth, height, graphWidth, height)
	fmt.Fprintf(g.out, "<style>%s</style>\n", graphStyle)
	fmt.Fprintf(g.out, `<rect width="100%%" height="100%%" fill="#fff"/><text x="6" y="17">%s</text>`+"\n", escaped(shown(title)))
	fmt.Fprintf(g.out, `<text x="6" y="33">%s instructions, calls: %s. A frame is as wide as what its function used, with those below it.</text>`+"\n",
		termtext.Thousands(root.total), termtext.Thousands(root.entered))
	if g.total > 0 {
		g.frame(root, 0, 0)
	}
	fmt.Fprintln(g.out, "</svg>")
}

// frame draws a frame and those below it, whose instructions begin at a number of all.
func (g *graph) frame(f *frame, begin int64, row int) {
	if f.total < g.least {
		return
	}
	x, width := g.pixels(begin), g.pixels(f.total)
	fmt.Fprintf(g.out, `<svg class="f" x="%.2f" y="%d" width="%.2f" height="%d"><title>%s</title><rect width="100%%" height="100%%" fill="%s"/>`,
		x, headHeight+row*rowHeight, width, rowHeight-1, escaped(g.tooltip(f)), f.color())
	if width >= minText {
		fmt.Fprintf(g.out, `<text x="4" y="13">%s</text>`, escaped(f.function.Name))
	}
	fmt.Fprintln(g.out, "</svg>")
	for _, c := range f.called {
		g.frame(c, begin, row+1)
		begin += c.total
	}
}

func (g *graph) pixels(instructions int64) float64 {
	return graphWidth * float64(instructions) / float64(g.total)
}

func (g *graph) tooltip(f *frame) string {
	return fmt.Sprintf("%s: %s instructions (%.2f %%), %s of them its own, entered: %s", f.function.Name,
		termtext.Thousands(f.total), 100*float64(f.total)/float64(g.total), termtext.Thousands(f.own), termtext.Thousands(f.entered))
}

// color returns the color of a frame: blue for functions of the host, and a warm one for
// those of the guest, the same wherever a function stands.
func (f *frame) color() string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, f.function.Name) // it takes everything
	shade := h.Sum32()
	if f.function.OfHost {
		return fmt.Sprintf("hsl(%d,50%%,75%%)", 200+shade%30)
	}
	return fmt.Sprintf("hsl(%d,85%%,%d%%)", 15+shade%40, 65+shade/64%10)
}

// escaped returns a text for SVG. A character that XML cannot have is marked.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // the builder takes everything
	return b.String()
}
