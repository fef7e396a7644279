// Package bedrock signs requests to Amazon Bedrock, whose endpoints speak the protocols of
// packages anthropicmodel, openaimodel and responsesmodel: their models reach it with a client
// of this package.
//
//	client, err := bedrock.NewClient(&bedrock.Options{Region: "eu-west-1", Credentials: credentials})
//	model, err := anthropicmodel.New("anthropic.claude-sonnet-4-5-20250929-v1:0", &anthropicmodel.Options{
//		Server: modelhttp.Options{BaseURL: bedrock.MessagesURL("eu-west-1"), HTTPClient: client},
//	})
//
// Requests are signed by Signature Version 4 with aws-sdk-go-v2's signer. With an API key of
// Bedrock none of this is needed: it is the model's key, at the same address.
//
// # Missing on purpose
//
// Credentials are the program's to find: in the environment by [Environment], and in roles of
// machines, containers and clusters by a few lines over aws-sdk-go-v2's config package, which
// this package does not depend on. The Converse and InvokeModel APIs are not used: they are other
// forms of the conversations that the endpoints here take as they are.
package bedrock
