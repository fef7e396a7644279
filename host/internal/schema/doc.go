// Package schema compiles JSON Schemas and validates JSON with them, within bounds.
//
// A schema goes in as JSON, or is inferred from a Go type ([Infer]). [Compile]
// refuses a schema that refers to other documents or that takes too long to
// compile. A compiled [Schema] says which values of a document do not fit and how
// ([Schema.Validate]), with the values or without them ([Schema.ValidateUnseen]).
// Each validation has a budget of work, which grows with the value up to a bound;
// beyond it the answer is a [TooManyChecksError]. So the processor time and the
// stack of a validation are bounded for every schema and every value, and other
// goroutines get the processor meanwhile.
//
// Schemas are read by the library; the rules are ours. Tests hold them to what the
// library says. Two passes stand before them: a plain rule, which takes most
// values of most schemas at once ([Schema.StillFits]), and the rules that say
// only yes or no. Faults are looked for in a value that does not fit.
//
// What models write is forgiven where it can be understood: [Schema.Arguments]
// drops the nulls that strict providers have models write, and [CanonicalIntegers]
// writes 2.0 and 2e0 as 2.
package schema
