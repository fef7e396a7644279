package linearmem

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A new memory that is filled, and a used one that is restored, are equal to the memory
// that the image was taken of.
func TestMemoriesBecomeEqualToTheirImage(t *testing.T) {
	const pages = 8
	rapid.Check(t, func(t *rapid.T) {
		write := func(mem []byte, what string) {
			for range rapid.IntRange(0, 4).Draw(t, what) {
				at := rapid.IntRange(0, len(mem)-100).Draw(t, "at")
				copy(mem[at:], rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes"))
			}
		}
		proceed := func(int) bool { return true }
		first := make([]byte, pages<<16)
		write(first, "data segments")
		mem := bytes.Clone(first)
		before, _ := NonZero(first, proceed)
		write(mem, "start-up writes")
		im := Take(mem, before, proceed)
		if im.Size() != len(mem) {
			t.Fatalf("the image has %d bytes, want %d", im.Size(), len(mem))
		}
		if !im.Fill(first, proceed) || !bytes.Equal(first, mem) {
			t.Error("a new memory that is filled is not equal to the image")
		}
		used := bytes.Clone(mem)
		write(used, "call writes")
		if !im.Restore(used, proceed) || !bytes.Equal(used, mem) {
			t.Error("a used memory that is restored is not equal to the image")
		}
	})
}

func TestImagesStopWhenTheWorkIsNotWanted(t *testing.T) {
	mem := bytes.Repeat([]byte{1}, 4*Piece)
	proceed := func(int) bool { return true }
	im := Take(mem, nil, proceed)
	for _, r := range im.runs {
		if len(r.bytes) > Piece {
			t.Errorf("%d bytes at %d are copied in one go", len(r.bytes), r.at)
		}
	}
	for name, work := range map[string]func(func(int) bool) bool{
		"take":    func(p func(int) bool) bool { return Take(mem, nil, p) != nil },
		"fill":    func(p func(int) bool) bool { return im.Fill(make([]byte, len(mem)), p) },
		"restore": func(p func(int) bool) bool { return im.Restore(make([]byte, len(mem)), p) },
	} {
		pieces := 0
		if !work(func(int) bool { pieces++; return true }) || pieces < 4 {
			t.Errorf("%s asks %d times, want 4 at least", name, pieces)
		}
		asked := 0
		if work(func(int) bool { asked++; return asked < 2 }) || asked != 2 {
			t.Errorf("%s continues after it was told to stop: it asks %d times", name, asked)
		}
	}
}
