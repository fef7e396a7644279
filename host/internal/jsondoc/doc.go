// Package jsondoc reads JSON strictly, patches it and compares it.
//
// JSON goes in as bytes. It is read in four ways:
//   - by member or element, without a Go value ([EachMember], [EachElement],
//     [DecodeMembers]), for formats that keep unknown members in their order;
//   - into a decoded value ([Decode], [DecodeStrict]): maps, slices, strings, bools
//     and nil, with numbers as [json.Number], so that integers of any size survive;
//   - into a Go value ([Unmarshal]), for documents of unknown origin such as a plugin's
//     output, in pieces between which other work can run;
//   - as a [Document], which is decoded at its first use.
//
// All of them read one grammar, that of [Check]: RFC 8259 in UTF-8, nested at most 10,000
// deep. Names are case-sensitive, a number keeps its digits, the escape of a NUL is an
// ordinary character, and the escape of half a surrogate pair becomes U+FFFD. Where an
// object has two members with one name the last counts, except that [DecodeStrict],
// [DecodeMembers], [MemberSet] and an [Op] refuse it, because a second reader of their
// documents may choose the first. [Read] accepts at most [MaxDepth] levels, [Unmarshal]
// lists of at most [MaxListed] items, and [DecodeStrict] numbers within [InRange].
//
// It computes the RFC 6902 operations ([Op]) that turn one value into another, applies
// operations, and writes JSON again.
//
// A [Patcher] copies the objects and arrays on the way to a change, each once, and
// shares the rest with the value before; [Document.Diff] and [Encoded.Next] pass
// over shared parts. So patching, comparing and writing take time in proportion to the
// change. Decoded values are therefore never changed once another value may share them.
//
// One differ compares two documents, and the values that a Go type wrote before and
// after a change of a document ([DiffTyped]). It compares decoded values that share
// parts by their addresses, and JSON by its bytes: it decodes only the parts that
// differ.
//
// Every operation is bounded: the number of operations and their work, the depth
// of values and pointers, and the digits of numbers that are compared. A refusal is
// a [*fault.Error]: invalid_argument for JSON or an operation that is malformed or does
// not apply, conflict for the operation test that found another value,
// resource_exhausted for more operations, work or depth than the bounds allow.
package jsondoc
