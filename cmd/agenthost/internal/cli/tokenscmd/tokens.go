package tokenscmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli"
	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host/datadir"
	"github.com/agenthost/agenthost/host/tokens"
	"github.com/agenthost/agenthost/internal/termtext"
)

// maxTextBytes bounds a text whose tokens are counted.
const maxTextBytes = 256 << 20

type tokensFlags struct {
	encoding, model string
	json            bool
}

// New returns the command.
func New(t *ui.Terminal) *cobra.Command {
	var f tokensFlags
	c := &cobra.Command{
		Use:   "tokens [FILE|-]",
		Short: "Count the tokens of a text",
		Long: `Count the tokens of a file or of stdin, as the model's own tokenizer does.
Encodings: ` + strings.Join(tokens.EncodingNames(), ", ") + ".",
		Example: `  agenthost tokens --encoding cl100k_base README.md
  echo "how long is this?" | agenthost tokens`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return countTokens(c, t, f, strings.Join(list, ""))
		},
	}
	c.Flags().StringVar(&f.encoding, "encoding", "", "the encoding (default "+tokens.DefaultEncoding+")")
	c.Flags().StringVar(&f.model, "model", "", "count as this model does")
	c.Flags().BoolVar(&f.json, "json", false, cli.JSONUsage)
	c.MarkFlagsMutuallyExclusive("encoding", "model")
	return c
}

// tokenCount is the output of --json.
type tokenCount struct {
	Tokens   int    `json:"tokens"`
	Encoding string `json:"encoding"`
	Exact    bool   `json:"exact"` // false: the model's encoding is not known
	Bytes    int    `json:"bytes"`
}

func countTokens(c *cobra.Command, t *ui.Terminal, f tokensFlags, file string) error {
	count := tokenCount{Encoding: f.encoding, Exact: true}
	switch {
	case f.model != "":
		count.Encoding, count.Exact = tokens.EncodingForModel(f.model)
	case f.encoding == "":
		count.Encoding = tokens.DefaultEncoding
	}
	counter, err := tokens.New(nil)
	if err != nil {
		return err
	}
	encoding, err := counter.Encoding(count.Encoding)
	if errors.Is(err, tokens.ErrUnknown) {
		return cli.UsageError(unknownEncoding(f.encoding), c.CommandPath())
	}
	if err != nil {
		return err
	}
	text, err := readText(t, file)
	if errors.Is(err, errNoText) {
		return cli.UsageError(err, c.CommandPath())
	}
	if err != nil {
		return err
	}
	count.Bytes, count.Tokens = len(text), encoding.CountBytes(text)
	if f.json {
		return ui.PrintJSON(t.Out, count)
	}
	if !count.Exact {
		fmt.Fprintf(t.Err, "agenthost: the encoding of model %q is not known; counted with %s, which is a guess\n", f.model, count.Encoding)
	}
	_, err = fmt.Fprintln(t.Out, count.Tokens)
	return err
}

func unknownEncoding(name string) error {
	if near := termtext.Nearest(name, tokens.EncodingNames()); near != "" {
		return fmt.Errorf("there is no encoding %q; did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no encoding %q; there are: %s", name, strings.Join(tokens.EncodingNames(), ", "))
}

var errNoText = errors.New("name a file, or - to read a text from stdin")

// readText reads a file, or stdin for "-" and, if it is not a terminal, for "".
func readText(t *ui.Terminal, file string) ([]byte, error) {
	if file == "" && t.InIsTerminal {
		return nil, errNoText
	}
	if file == "" || file == "-" {
		return datadir.ReadBounded(t.In, maxTextBytes, "the text on stdin")
	}
	return datadir.ReadFile(file, maxTextBytes)
}
