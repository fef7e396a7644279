// Package schema compiles JSON Schemas and validates JSON with them, within bounds.
//
// A schema goes in as JSON, or is inferred from a Go type ([Infer]). [Compile]
// refuses a schema that refers to other documents or that takes too long to
// compile. A compiled [Schema] reports which values of a document do not fit and why
// ([Schema.Validate]), with the values or without them ([Schema.ValidateUnseen]). Each
// validation has a budget of work, which grows with the value up to a bound; beyond it
// the error is a [TooManyChecksError]. So the processor time and the stack of a
// validation are bounded for every schema and every value, and other goroutines get the
// processor meanwhile.
//
// The library reads schemas; the package has its own rules, and tests compare their
// results with the library's. A validation has three passes: a plain rule, which
// accepts most values of most schemas at once ([Schema.StillFits]), the rules with a
// yes or no for an answer, and, for a value that does not fit, the rules with all
// faults.
//
// Models' arguments are corrected where their meaning is clear: [Schema.Arguments]
// drops the nulls that strict providers make models write, and [CanonicalIntegers]
// writes 2.0 and 2e0 as 2.
package schema
