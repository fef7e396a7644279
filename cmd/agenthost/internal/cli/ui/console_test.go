package ui

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestConsoleKeepsTheHostApartFromTheConversation(t *testing.T) {
	for name, row := range map[string]struct {
		terminal bool
		want     string
	}{
		"a terminal": {true, "* before\n> \r\x1b[K* at the prompt\n> clerk: it is\n* amid\n* more\n"},
		"a pipe":     {false, "* before\n> \n* at the prompt\n> clerk: it is\n* amid\n* more\n"},
	} {
		var both bytes.Buffer
		term := &Terminal{Out: &both, Err: &both, ErrIsTerminal: row.terminal}
		c := term.Console()
		say := func(text string) { _, _ = c.Write([]byte("* " + text + "\n")) }
		say("before")
		if err := c.Ask("> "); err != nil {
			t.Fatal(err)
		}
		say("at the prompt")
		c.Answered()
		show := NewPrinter(term)
		show.color, show.agent = false, "clerk"
		show.text("it ")
		say("amid")
		say("more")
		show.text("is")
		show.EndText()
		if both.String() != row.want {
			t.Errorf("%s shows %q, want %q", name, both.String(), row.want)
		}
	}
}

func TestARunThatIsShownIsNotLoggedToo(t *testing.T) {
	var both bytes.Buffer
	term := &Terminal{Out: &both, Err: &both}
	term.Console().Shows("r1")
	logger := term.Logger()
	logger.Error(runFailed, "run", "r1", "error", "x")
	if both.Len() > 0 {
		t.Errorf("the log says %q", both.String())
	}
	logger.With(slog.String("a", "b")).Error(runFailed, "run", "r2", "error", "x")
	logger.Error("something else", "run", "r1")
	if n := bytes.Count(both.Bytes(), []byte("\n")); n != 2 {
		t.Errorf("the log has %d lines, want 2: %s", n, both.String())
	}
}

func TestConsoleKeepsTheOrderOfLinesThatDoNotFit(t *testing.T) {
	var both bytes.Buffer
	term := &Terminal{Out: &both, Err: &both}
	c := term.Console()
	c.text(true)
	for _, line := range []string{"first\n", strings.Repeat("x", maxHeldLines) + "\n", "last\n"} {
		if n, err := c.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	c.text(false)
	got := strings.Fields(strings.ReplaceAll(both.String(), strings.Repeat("x", maxHeldLines), "second"))
	if want := []string{"first", "second", "last"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}
