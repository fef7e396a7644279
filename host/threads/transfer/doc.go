// Package transfer moves conversations between a store of threads and files.
//
//	acme := threads.New(driver, nil).For("acme")
//	err := transfer.Export(ctx, acme, "t1", transfer.FormatThread, w)
//
//	src, err := transfer.NewSource("", file)
//	got, err := transfer.Import(ctx, acme, src, nil)
//
// [Export] writes a thread in a [Format]; [Import] stores a conversation from a [Source].
// [NewSource] reads the formats that Export writes, [NewSources] a training file of many
// conversations, and a form of another system is another Source. All of them hold a page
// of a thread at a time, whatever its length.
//
// Importing the same conversation twice is importing it once, and an import that was
// interrupted is completed by the next. Members of an OpenAI message that agenthost
// does not know are kept with the message and exported again.
//
// Errors are of type [*host.Error]; those of a reader or a writer are their cause.
package transfer
