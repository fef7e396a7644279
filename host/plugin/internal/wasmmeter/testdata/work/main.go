// Command work is a guest that does a little of everything that Go code does, so
// that a metered module can be compared with a plain one. It has no host: its
// input and output are in buffers of its own.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

var buffer [1 << 20]byte

//go:wasmexport buffer
func bufferAddress() int32 { return int32(uintptr(unsafe.Pointer(&buffer))) }

type message struct {
	ID    string         `json:"id"`
	Role  string         `json:"role"`
	Parts []part         `json:"parts"`
	Meta  map[string]any `json:"meta,omitempty"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// roundtrip decodes the JSON messages in the buffer and encodes them again.
//
//go:wasmexport roundtrip
func roundtrip(n int32) int32 {
	var list []message
	if err := json.Unmarshal(buffer[:n], &list); err != nil {
		return int32(-copy(buffer[:], err.Error()))
	}
	out, err := json.Marshal(list)
	if err != nil {
		return int32(-copy(buffer[:], err.Error()))
	}
	return int32(copy(buffer[:], out))
}

// run does one kind of work, with a size, and leaves its result in the buffer.
//
//go:wasmexport run
func run(kind, size int32) int32 {
	if int(kind) >= len(kinds) {
		return -1
	}
	return int32(copy(buffer[:], kinds[kind](int(size))))
}

var kinds = []func(n int) string{
	sorting, texts, numbers, maps, channels, panics, hashes, patterns, closures, trees, generic,
}

func sorting(n int) string {
	list := make([]int, n)
	for i := range list {
		list[i] = i * 7919 % 1009
	}
	a, b := slices.Clone(list), slices.Clone(list)
	sort.Ints(a)
	slices.SortStableFunc(b, func(x, y int) int { return y - x })
	i, found := slices.BinarySearch(a, 500)
	return fmt.Sprint(a, b, i, found)
}

func texts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d:%q:%x|", i, strings.Repeat("aä€😀"[:i%10+1], i%4), i*i)
	}
	s := b.String()
	return strings.ToUpper(s) + strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '|' }), "+") + strconv.Itoa(strings.Count(s, "a"))
}

func numbers(n int) string {
	var b []byte
	f := 0.1
	u := uint64(1)
	for i := range n {
		f = math.Sqrt(f*3.7+float64(i)) - math.Floor(f)
		u = u*6364136223846793005 + uint64(i)
		b = strconv.AppendFloat(append(b, ' '), f, 'g', -1, 64)
		b = strconv.AppendUint(append(b, ' '), u/uint64(i+1)%1000003, 10)
		b = strconv.AppendInt(append(b, ' '), int64(int32(u>>13))>>uint(i%40), 36)
	}
	return string(b)
}

func maps(n int) string {
	m := map[string][]int{}
	for i := range n {
		k := strconv.Itoa(i * 31 % 17)
		m[k] = append(m[k], i)
		if i%5 == 0 {
			delete(m, strconv.Itoa(i%17))
		}
	}
	return fmt.Sprint(m)
}

func channels(n int) string {
	in, out := make(chan int), make(chan int, 3)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for v := range in {
				out <- v * v
			}
		})
	}
	go func() {
		for i := range n {
			in <- i
		}
		close(in)
		wg.Wait()
		close(out)
	}()
	sum := 0
	for v := range out {
		sum += v
	}
	return strconv.Itoa(sum)
}

func panics(n int) (s string) {
	for i := range n {
		s += recovered(i)
	}
	return s
}

func recovered(i int) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprint(r, ";")
		}
	}()
	defer func() { s += "deferred" }()
	list := []int{1, 2, 3}
	switch i % 4 {
	case 0:
		return strconv.Itoa(list[i])
	case 1:
		var p *part
		return p.Text
	case 2:
		return strconv.Itoa(list[0] / (i - i))
	}
	panic("panic " + strconv.Itoa(i))
}

func hashes(n int) string {
	b := bytes.Repeat([]byte("agent"), n)
	return fmt.Sprintf("%x %08x", sha256.Sum256(b), crc32.ChecksumIEEE(b))
}

var pattern = regexp.MustCompile(`(?i)(\d{2,4})[- ](x|y+z)?\b`)

func patterns(n int) string {
	text := strings.Repeat("call 12-xx or 1234 YYZ, 99- 7 ", n)
	return fmt.Sprint(pattern.FindAllStringSubmatchIndex(text, -1)) + pattern.ReplaceAllString(text, "<$1>")
}

func closures(n int) string {
	var fs []func(int) int
	for i := range n {
		fs = append(fs, func(x int) int { return x ^ i<<uint(i%7) })
	}
	v := 1
	for _, f := range fs {
		v = f(v)
	}
	return strconv.Itoa(v)
}

type tree struct {
	left, right *tree
	value       int
}

func (t *tree) add(v int) *tree {
	switch {
	case t == nil:
		return &tree{value: v}
	case v < t.value:
		t.left = t.left.add(v)
	case v > t.value:
		t.right = t.right.add(v)
	}
	return t
}

func (t *tree) walk(visit func(int)) {
	if t != nil {
		t.left.walk(visit)
		visit(t.value)
		t.right.walk(visit)
	}
}

func trees(n int) string {
	var root *tree
	for i := range n {
		root = root.add(i * 7919 % 1009)
	}
	s := ""
	root.walk(func(v int) { s += strconv.Itoa(v) + "," })
	return s
}

type shape interface{ area() float64 }
type square float64
type circle struct{ r float64 }

func (s square) area() float64  { return float64(s * s) }
func (c *circle) area() float64 { return c.r * c.r * math.Pi }

func generic(n int) string {
	var list []shape
	for i := range n {
		if i%3 == 0 {
			list = append(list, &circle{float64(i)})
		} else {
			list = append(list, square(i))
		}
	}
	return strconv.FormatFloat(sum(list, shape.area), 'e', 9, 64)
}

func sum[T any, N int | float64](list []T, f func(T) N) (total N) {
	for _, v := range list {
		total += f(v)
	}
	return total
}

func main() {}
