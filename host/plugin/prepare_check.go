package plugin

import (
	"fmt"
	"strings"
)

// This file says what is wrong with a module that is well formed: limits that
// it breaks, names that it may not use, things that this host does not have.

// tooMany refuses a module that has more of something than a limit allows.
func tooMany(subject string, n int, what string, limit int) error {
	return refuse("%s %d %s, and the limit is %d", subject, n, what, limit).
		WithHint("make the module smaller (strip it, drop what it does not use), or raise the limit if you trust its author")
}

// problems lists what prepare refuses a module for before it looks at its code.
func (s *structure) problems(l *structureLimits) []error {
	m := s.module
	var list []error
	for _, c := range []struct {
		n     int
		what  string
		limit int
	}{
		{len(m.types), "types", l.types},
		{len(m.imports), "imports", l.imports},
		{len(m.bodies), "functions", l.functions},
		{len(m.globals), "globals", l.globals},
		{len(m.exports), "exports", l.exports},
		{len(m.tables), "tables", l.tables},
		{m.elements, "element segments", l.elementSegments},
		{m.elementItems, "elements", l.elements},
		{len(m.data), "data segments", l.dataSegments},
		{m.customBytes, "bytes in custom sections", l.customBytes},
	} {
		if c.n > c.limit {
			list = append(list, tooMany("the module has", c.n, c.what, c.limit))
		}
	}
	list = append(list, m.typeProblems(l)...)
	list = append(list, m.nameProblems(l)...)
	return append(list, m.sizeProblems(l)...)
}

// typeProblems refuses functions that pass more values than a limit.
func (m *wasmModule) typeProblems(l *structureLimits) []error {
	for i, t := range m.types {
		if n := max(len(t.params), len(t.results)); n > l.values {
			return []error{tooMany(fmt.Sprintf("type %d passes", i), n, "values", l.values)}
		}
	}
	return nil
}

// nameProblems refuses imports that no host function can answer, and names that
// belong to the metering pass.
func (m *wasmModule) nameProblems(l *structureLimits) (list []error) {
	var others []importEntry // that are no functions
	for _, imp := range m.imports {
		if n := max(len(imp.module), len(imp.name)); n > l.nameBytes {
			list = append(list, tooMany("an import's name has", n, "bytes", l.nameBytes))
			continue
		}
		switch {
		case imp.module == meterModule || strings.HasPrefix(imp.module, meterPrefix):
			list = append(list, refuse("the module imports %q %q, and names that begin with %s belong to the host's meter", imp.module, imp.name, meterModule).
				WithHint("import something else; a module that was metered already is not accepted again, so give the original"))
		case imp.kind != externFunc:
			others = append(others, imp)
		}
	}
	if len(others) > 0 {
		list = append(list, importedOthers(others))
	}
	for _, e := range m.exports {
		switch {
		case len(e.name) > l.nameBytes:
			list = append(list, tooMany("an export's name has", len(e.name), "bytes", l.nameBytes))
		case strings.HasPrefix(e.name, meterPrefix):
			list = append(list, refuse("the module exports %q, and names that begin with %s belong to the host's meter", e.name, meterPrefix).
				WithHint("rename the export; a module that was metered already is not accepted again, so give the original"))
		}
	}
	return list
}

// importedOthers refuses the imports that are no functions, in one sentence.
func importedOthers(list []importEntry) error {
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" and %d more that are no functions", len(list)-1)
	}
	i := list[0]
	return unsupported("the module imports the %s %q %q%s, and this host provides functions only", i.kind, i.module, i.name, more).
		WithHint("let the module define and export its own %s", i.kind)
}

// pagesSize says for people how much a number of pages is.
func pagesSize(pages uint32) string {
	if pages%16 == 0 && pages > 0 {
		return fmt.Sprintf("%d MiB", pages/16)
	}
	return fmt.Sprintf("%d KiB", uint64(pages)*64)
}

// sizeProblems refuses memories and tables that begin larger than they may get.
func (m *wasmModule) sizeProblems(l *structureLimits) (list []error) {
	for _, mem := range m.memories {
		if mem.min > l.memoryPages {
			list = append(list, refuse("the module's memory begins with %d pages (%s), and the limit is %d pages (%s)",
				mem.min, pagesSize(mem.min), l.memoryPages, pagesSize(l.memoryPages)).
				WithHint("build it with a smaller initial memory or stack, or raise the memory limit"))
		}
	}
	for i, t := range m.tables {
		if t.min > l.tableEntries {
			list = append(list, refuse("table %d begins with %d entries, and the limit is %d", i, t.min, l.tableEntries).
				WithHint("build the module with fewer functions that are used as values, or raise the limit"))
		}
	}
	return list
}
