// Package hosttest tests the adapters of a host, and agents themselves, without a
// network.
//
// [Model] is a model that answers from a script. [TestHistory] and [TestProcessor] check
// any history adapter and any processor against the rules of their interfaces: each rule
// is a subtest whose name is the rule.
// [RunTranscripts] replays agents from files of expected events with their reasons.
//
// [History] is a history adapter in memory. It passes TestHistory, and it records its
// calls.
package hosttest
