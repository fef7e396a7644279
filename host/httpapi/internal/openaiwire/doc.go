// Package openaiwire reads the bodies of OpenAI's Chat Completions and Responses as requests
// to a host: a conversation, the new part of it, and the terms that the client sets.
//
// Members that this version does not know are ignored, as clients send those of many servers.
// One that asks for an answer of another kind than is given, such as several choices, is
// refused by an error that names it.
package openaiwire
