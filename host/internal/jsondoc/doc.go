// Package jsondoc reads JSON strictly, patches it and compares it.
//
// JSON goes in as bytes. It is read in three ways:
//   - by member or element, without a Go value ([EachMember], [EachElement],
//     [DecodeMembers]), for formats that keep unknown members in their order;
//   - into a decoded value ([Decode], [DecodeStrict]): maps, slices, strings, bools
//     and nil, with numbers as [json.Number], so that integers of any size survive;
//   - as a [Document], which is decoded when something first looks into it.
//
// Out come operations of RFC 6902 ([Op]) that lead from one value to another, the
// values that operations lead to, and JSON again.
//
// A [Patcher] copies the objects and arrays on the way to a change, each once, and
// shares the rest with the value before; [Document.Diff] and [Encoded.Next] pass
// over shared parts. So patching, comparing and writing cost what has changed.
// Decoded values are therefore never changed once another value may share them.
//
// Two differs stand here: that of decoded values, for documents that one was
// patched into the other, and that of documents as they are written, for two
// that were read each by itself. The second decodes only the parts that differ.
//
// Every operation is bounded: the number of operations and their work, the depth
// of values and pointers, and the digits of numbers that are compared. A refusal is
// an [*Error] of one of three kinds; the package host gives each kind its code.
package jsondoc
