package cli

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/agenthost/agenthost/cmd/agenthost/internal/cli/ui"
	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/datadir"
)

// MaxPromptBytes bounds a prompt while it is read, far above a host's default limit, so
// that people see the host's error.
const MaxPromptBytes = 64 << 20

// ErrNoPrompt is the error of a prompt without text.
var ErrNoPrompt = errors.New(`the prompt is empty; say something, as in: agenthost run builtin:orderdesk "where is order 1042?"`)

// ReadPrompt returns the prompt: the argument, or stdin if the argument is - or absent
// and stdin is not a terminal. talk reports that a person is at the terminal. Only a
// thread can continue with an empty prompt; otherwise the error is [ErrNoPrompt].
func ReadPrompt(t *ui.Terminal, list []string, hasThread bool) (text string, talk bool, err error) {
	switch {
	case len(list) == 0 && t.InIsTerminal:
		return "", true, nil
	case len(list) == 0 || list[0] == "-":
		b, err := datadir.ReadBounded(t.In, MaxPromptBytes, "the prompt on stdin")
		if err != nil {
			return "", false, err
		}
		text = strings.TrimRight(string(b), "\r\n")
	default:
		text = list[0]
	}
	if !utf8.ValidString(text) {
		return "", false, NotUTF8("the prompt")
	}
	if strings.TrimSpace(text) != "" {
		return text, false, nil
	}
	if hasThread && len(list) == 1 && list[0] == "" {
		return "", false, nil
	}
	return "", false, ErrNoPrompt
}

// NotUTF8 is the error of a text in another encoding.
func NotUTF8(what string) error {
	return host.Errorf(host.InvalidArgument, "%s is not UTF-8", what).WithHint("convert it, as with: iconv -f latin1 -t utf-8")
}
