// Package ui shows the output of commands to a person or a program: streams and the
// terminal behind them, the events of a run as they happen, progress, the host's messages
// beside a conversation, errors with their next step, JSON, and numbers in words.
//
// Values of commands come in, text goes out. Texts of models, plugins and other users
// leave without terminal control sequences.
package ui
