// Package tokenscmd counts the tokens of a text: the command agenthost tokens.
package tokenscmd
