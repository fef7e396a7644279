// Package schematypes writes the types of a programming language for a JSON Schema, so
// that the arguments of a tool have names that a compiler checks.
//
// A schema is read once into types that every language has in some form: objects with
// optional members, arrays, maps, literals, alternatives, references. [Declare] writes them
// as declarations of a [Language]; [TypeScriptFunction] writes a tool as a function for
// models that write code.
//
// Schemas come from plugins and servers of others, so nothing in one is trusted: names
// become identifiers, texts cannot end a comment or a string, references that lead to
// themselves end, and depth and size are bounded. A type is never narrower than its schema
// where the language cannot say it all: such a part is the language's type for any value.
package schematypes
