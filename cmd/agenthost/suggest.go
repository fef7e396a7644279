package main

import (
	"io/fs"
	"os"
	"strings"
)

// nearest returns the word most like name, or "" if none is like it.
func nearest(name string, words []string) string {
	best, least := "", min(len(name)/3+2, len(name))
	for _, w := range words {
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
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
