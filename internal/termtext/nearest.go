package termtext

import "strings"

// Nearest returns the word most like name, or "" if none is like it: a word that
// begins with name, or a word that a few changed letters turn it into.
func Nearest(name string, words []string) string {
	name = strings.ToLower(name)
	best, least := "", min(len(name)/3+2, len(name))
	for _, w := range words {
		d := distance(name, strings.ToLower(w))
		if len(name) >= minPrefix && strings.HasPrefix(strings.ToLower(w), name) {
			d = 1
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// minPrefix is the least number of letters that abbreviate a word.
const minPrefix = 3

// distance returns how many letters must be changed, added, left out or swapped with
// their neighbour to turn a into b.
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
