// Package runlog is the contract between a host and the journal of its runs: the
// record of a run with its steps, and the questions that an interrupted run asks.
//
// A [Journal] keeps a [Record] for each run whose process may end before the run does:
// of a durable run all steps, of an interrupted one its questions and the checkpoint
// from which another run continues. The steps are the host's; a journal stores and
// returns them unchanged. A [Ref] names the run and its owner by a fence, so that an
// owner that was taken for dead changes nothing.
//
// A [Question] is about one tool call and comes back as an [Answer]. [Match] pairs the
// two, and refuses answers that do not fit before anything is done with them; [Settle]
// adds the defaults of questions that have expired.
//
// Package host has these types under its own names, such as host.Journal and
// host.Question. The package imports neither host nor a store: stores implement
// [Journal], hosttest.TestJournal proves them.
package runlog
