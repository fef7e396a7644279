package wasmmeter

import (
	"fmt"
	"math"
	"strings"

	"github.com/agenthost/agenthost/host/plugin/internal/refusal"
)

// This file reports the problems of a well-formed module: limits that it exceeds, names
// that it may not use, features that this host does not have.

// tooMany refuses a module that has more of something than a limit allows.
func tooMany(subject string, n int, what string, limit int) error {
	return refusal.Invalid("%s %d %s, and the limit is %d", subject, n, what, limit).
		WithHint("make the module smaller (strip it, drop what it does not use), or raise the limit if you trust its author")
}

// ofSection returns what a section has entries of, and the most of them. Nil limits have no
// bound.
func (l *Limits) ofSection(id int) (what string, most int) {
	if l == nil {
		return "", math.MaxInt
	}
	switch id {
	case secType:
		return "types", l.Types
	case secImport:
		return "imports", l.Imports
	case secFunction, secCode:
		return "functions", l.Functions
	case secGlobal:
		return "globals", l.Globals
	case secExport:
		return "exports", l.Exports
	case secTable:
		return "tables", l.Tables
	case secElement:
		return "element segments", l.ElementSegments
	case secData:
		return "data segments", l.DataSegments
	}
	return "", math.MaxInt // memories: there is at most one
}

// problems lists the reasons for which prepare refuses a module before it reads its
// code.
func (m *Module) problems(l *Limits) []error {
	var list []error
	for _, c := range []struct {
		n     int
		what  string
		limit int
	}{
		{len(m.Types), "types", l.Types},
		{len(m.Imports), "imports", l.Imports},
		{len(m.bodies), "functions", l.Functions},
		{len(m.Globals), "globals", l.Globals},
		{len(m.Exports), "exports", l.Exports},
		{len(m.Tables), "tables", l.Tables},
		{m.Elements, "element segments", l.ElementSegments},
		{m.ElementItems, "elements", l.Elements},
		{len(m.Data), "data segments", l.DataSegments},
		{m.custom.bytes, "bytes in custom sections", l.CustomBytes},
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
func (m *Module) typeProblems(l *Limits) []error {
	for i, t := range m.Types {
		if n := max(len(t.Params), len(t.Results)); n > l.Values {
			return []error{tooMany(fmt.Sprintf("type %d passes", i), n, "values", l.Values)}
		}
	}
	return nil
}

// nameProblems refuses imports that no host function can answer, and names that
// belong to the metering pass.
func (m *Module) nameProblems(l *Limits) (list []error) {
	var others []Import // that are no functions
	for _, imp := range m.Imports {
		if n := max(len(imp.Module), len(imp.Name)); n > l.NameBytes {
			list = append(list, tooMany("an import's name has", n, "bytes", l.NameBytes))
			continue
		}
		switch {
		case imp.Module == ImportModule || strings.HasPrefix(imp.Module, exportPrefix):
			list = append(list, refusal.Invalid("the module imports %q %q, and names that begin with %s belong to the host's meter", imp.Module, imp.Name, ImportModule).
				WithHint("import something else; a module that was metered already is not accepted again, so give the original"))
		case imp.Kind != ExternFunc:
			others = append(others, imp)
		}
	}
	if len(others) > 0 {
		list = append(list, importedOthers(others))
	}
	for _, e := range m.Exports {
		switch {
		case len(e.Name) > l.NameBytes:
			list = append(list, tooMany("an export's name has", len(e.Name), "bytes", l.NameBytes))
		case strings.HasPrefix(e.Name, exportPrefix):
			list = append(list, refusal.Invalid("the module exports %q, and names that begin with %s belong to the host's meter", e.Name, exportPrefix).
				WithHint("rename the export; a module that was metered already is not accepted again, so give the original"))
		}
	}
	return list
}

// importedOthers refuses the imports that are no functions, in one sentence.
func importedOthers(list []Import) error {
	more := ""
	if len(list) > 1 {
		more = fmt.Sprintf(" and %d more that are no functions", len(list)-1)
	}
	i := list[0]
	return refusal.Unsupported("the module imports the %s %q %q%s, and this host provides functions only", i.Kind, i.Module, i.Name, more).
		WithHint("let the module define and export its own %s", i.Kind)
}

// pagesSize returns a number of pages as a size for people to read.
func pagesSize(pages uint32) string {
	if pages%16 == 0 && pages > 0 {
		return fmt.Sprintf("%d MiB", pages/16)
	}
	return fmt.Sprintf("%d KiB", uint64(pages)*64)
}

// sizeProblems refuses memories and tables whose initial size exceeds the maximum.
func (m *Module) sizeProblems(l *Limits) (list []error) {
	for _, mem := range m.memories {
		if mem.Min > l.MemoryPages {
			e := refusal.Invalid("the module's memory begins with %d pages (%s), and the limit is %d pages (%s)",
				mem.Min, pagesSize(mem.Min), l.MemoryPages, pagesSize(l.MemoryPages)).
				WithHint("build it with a smaller initial memory or stack, or raise the memory limit")
			e.Err = ErrInitialMemory
			list = append(list, e)
		}
	}
	for i, t := range m.Tables {
		if t.Min > l.TableEntries {
			list = append(list, refusal.Invalid("table %d begins with %d entries, and the limit is %d", i, t.Min, l.TableEntries).
				WithHint("build the module with fewer functions that are used as values, or raise the limit"))
		}
	}
	return list
}
