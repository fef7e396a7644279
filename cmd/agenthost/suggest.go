package main

import (
	"io/fs"
	"os"
	"strings"
)

// nearest returns the word most like name, or "" if none is like it: one that
// begins with it, or one that a few letters make it.
func nearest(name string, words []string) string {
	name = strings.ToLower(name)
	best, least := "", min(len(name)/3+2, len(name))
	for _, w := range words {
		d := distance(name, strings.ToLower(w))
		if len(name) >= minBeginning && strings.HasPrefix(strings.ToLower(w), name) {
			d = 1
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// minBeginning is how many letters must be there to stand for a word.
const minBeginning = 3

// distance is how many letters must be changed, added, left out or exchanged
// with their neighbour to make b of a.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// osFiles is the operating system's file system under the names that people
// type: relative to the working directory, or absolute.
type osFiles struct{}

func (osFiles) Open(name string) (fs.File, error)          { return os.Open(name) }
func (osFiles) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFiles) ReadFile(name string) ([]byte, error)       { return os.ReadFile(name) }
func (osFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
