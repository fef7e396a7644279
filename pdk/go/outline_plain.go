package pdk

// The columns of an outline are most of what a processor reads, and hosts write
// them in one way: no space, no escapes. What is written so is read here, in
// functions that call nothing, because calls are what costs in a wasm module;
// anything else is left to the scanner.

// plainNumbers reads numbers of an array that was opened, as far as they are plain,
// and stops before the comma or the bracket that follows the last of them.
func (s *scanner) plainNumbers(out []int) []int {
	src, at := s.src, s.pos
	for {
		n, i := 0, at
		for i < len(src) && src[i]-'0' <= 9 {
			n = n*10 + int(src[i]-'0')
			i++
		}
		if i == at || i-at > maxDigits || i-at > 1 && src[at] == '0' || i == len(src) || src[i] != ',' && src[i] != ']' {
			return out
		}
		out = append(out, n)
		s.pos, s.first = i, false
		if src[i] == ']' {
			return out
		}
		at = i + 1
	}
}

// plainTool reads a row of an outline's tools. If that is not plain it returns
// false, and nothing was read.
func (s *scanner) plainTool(t *OutlineTool) bool {
	src, i := s.src, s.pos
	if i >= len(src) || src[i] != '[' {
		return false
	}
	var numbers [2]int
	for k := range numbers {
		i++
		start, n := i, 0
		for i < len(src) && src[i]-'0' <= 9 {
			n = n*10 + int(src[i]-'0')
			i++
		}
		if i == start || i-start > maxDigits || i-start > 1 && src[start] == '0' || i == len(src) || src[i] != ',' {
			return false
		}
		numbers[k] = n
	}
	var texts [3]string
	for k := range texts {
		i++
		if i >= len(src) || src[i] != '"' {
			return false
		}
		i++
		start := i
		for i < len(src) && src[i] != '"' {
			if src[i] < ' ' || src[i] == '\\' || src[i] >= 0x80 {
				return false
			}
			i++
		}
		texts[k] = src[start:min(i, len(src))]
		i++
		if i >= len(src) || src[i] != ',' && (k < 2 || src[i] != ']') {
			return false
		}
	}
	if src[i] != ']' || texts[0] != "call" && texts[0] != "result" { // later hosts may add columns
		return false
	}
	s.pos = i + 1
	*t = OutlineTool{Message: numbers[0], Part: numbers[1], Result: texts[0] == "result", ID: texts[1], Name: texts[2]}
	return true
}
