package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/internal/termtext"
)

// PageLimit is how many rows a command lists without --limit.
const PageLimit = 20

// Page is the flags of a command that lists a page of many rows.
type Page struct {
	Limit  int
	Cursor string // where the page begins; "" is the first one
}

// AddTo adds --limit and --cursor to a command.
func (p *Page) AddTo(c *cobra.Command) {
	p.AddLimitTo(c)
	c.Flags().StringVar(&p.Cursor, "cursor", "", "continue where a page ended, as the list says")
}

// AddLimitTo adds --limit to a command whose lists begin at their first row.
func (p *Page) AddLimitTo(c *cobra.Command) {
	p.Limit = PageLimit
	c.Flags().Var((*rowCount)(&p.Limit), "limit", "how many at most")
}

// Number returns the cursor of rows that are known by their numbers, 0 for the first page.
func (p *Page) Number(c *cobra.Command) (uint64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(p.Cursor, 10, 64)
	if err != nil {
		return 0, UsageError(fmt.Errorf("--cursor %q is not from the end of such a list", termtext.Printable(p.Cursor)), c.CommandPath())
	}
	return n, nil
}

// PrintPage prints a page: as JSON with the cursor of the next one, or by table with a remark
// how to continue.
func PrintPage[T any](t *ui.Terminal, asJSON bool, rows []T, next string, table func(*ui.Terminal, []T) error) error {
	if asJSON {
		return ui.PrintPage(t.Out, rows, next)
	}
	if err := table(t, rows); err != nil {
		return err
	}
	if next != "" {
		t.Note("there are more: --limit N, or the next ones with --cursor %s", termtext.ShellWord(next))
	}
	return nil
}

// PrintAll is [PrintPage] for a list that is whole.
func PrintAll[T any](t *ui.Terminal, asJSON bool, rows []T, table func(*ui.Terminal, []T) error) error {
	return PrintPage(t, asJSON, rows, "", table)
}

// PrintFirst is [PrintPage] for a list without cursors. Rows beyond the limit are not
// printed: they show that there are more.
func PrintFirst[T any](t *ui.Terminal, asJSON bool, rows []T, limit int, table func(*ui.Terminal, []T) error) error {
	shown := rows[:min(limit, len(rows))]
	if asJSON {
		return ui.PrintItems(t.Out, shown)
	}
	if err := table(t, shown); err != nil {
		return err
	}
	if len(rows) > limit {
		t.Note("there are more: --limit N")
	}
	return nil
}

// rowCount is the value of --limit.
type rowCount int

func (n *rowCount) String() string { return strconv.Itoa(int(*n)) }

func (n *rowCount) Type() string { return "int" }

func (n *rowCount) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return errors.New("it is a number of rows, 1 or more")
	}
	*n = rowCount(v)
	return nil
}
