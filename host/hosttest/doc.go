// Package hosttest tests what people plug into a host, and agents themselves,
// without a network.
//
// [Model] is a model that answers from a script. [TestHistory] and
// [TestProcessor] hold any history adapter and any processor to the rules of
// their interfaces: each rule is a subtest whose name is the rule.
// [RunTranscripts] replays agents from files of expected events with their reasons.
//
// [History] is a history adapter in memory. It passes TestHistory, and it
// remembers how it was called.
package hosttest
