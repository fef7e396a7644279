// Package demomodel guesses what a model would answer, from the English words of a
// request: so that a demo and a new project answer without a key. It is the Otherwise of
// the scripted model of a configuration.
//
// A conversation goes in, calls or a text come out. [Answer] picks the offered tool whose
// name and description share words with the request, fills the tool's schema from the
// words of the request (numbers, ids, dates, addresses, quoted text, the values of an
// enum), calls it once for each id in the request, and puts the results into a sentence.
// Asked by a model router (tools select_agent and done) it picks the agent whose
// description shares words with the request, and is done once one has answered. "And the
// other one?" is resolved from the ids that the conversation has named and not asked
// about. When nothing matches, the answer describes the model and its tools.
//
// It understands nothing, and is no judge of a host's answers. It promises this: the same
// conversation gets the same answer; a call has valid JSON; a turn ends, since no call is
// made twice in it; a long text is read at its ends.
package demomodel
