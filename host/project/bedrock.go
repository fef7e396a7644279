package project

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/agenthost/agenthost/host"
	"github.com/agenthost/agenthost/host/anthropicmodel"
	"github.com/agenthost/agenthost/host/bedrock"
	"github.com/agenthost/agenthost/host/modelhttp"
	"github.com/agenthost/agenthost/host/openaimodel"
	"github.com/agenthost/agenthost/host/project/internal/configfile"
)

// dialBedrock connects to a model of Amazon Bedrock: one of Anthropic's by the Messages API,
// another by chat completions; with an API key, or with signed requests.
func (s *modelSet) dialBedrock(mc configfile.Model) (closable, error) {
	region := cmp.Or(mc.Region, s.getenv("AWS_REGION"), s.getenv("AWS_DEFAULT_REGION"))
	from := homeOf(mc.Provider)
	server := modelhttp.Options{BaseURL: cmp.Or(mc.BaseURL, s.getenv(from.urlEnv)), Timeout: time.Duration(mc.Timeout), KeepRaw: mc.KeepRaw, Whole: mc.Whole, Logger: s.logger}
	if region == "" && server.BaseURL == "" {
		return nil, host.Errorf(host.InvalidArgument, "model %q has no region", mc.Name).WithHint("write: region: eu-west-1, or set AWS_REGION")
	}
	if key := s.getenv(cmp.Or(mc.KeyEnv, from.keyEnv)); key != "" {
		server.Headers = http.Header{"Authorization": {"Bearer " + key}}
	} else if err := s.signBedrock(&server, region); err != nil {
		return nil, err
	}
	if strings.Contains(mc.Name, "anthropic.") {
		server.BaseURL = cmp.Or(server.BaseURL, bedrock.MessagesURL(region))
		return anthropicmodel.New(mc.Name, &anthropicmodel.Options{Server: server, ThinkingTokens: mc.Thinking, Cache: mc.Cache})
	}
	if mc.Thinking != 0 || mc.Cache {
		return nil, host.Errorf(host.InvalidArgument, "model %q has thinking or cache, and is none of Anthropic's", mc.Name).WithHint("leave them out")
	}
	server.BaseURL = cmp.Or(server.BaseURL, bedrock.OpenAIURL(region))
	return openaimodel.New(mc.Name, &openaimodel.Options{Server: server})
}

// signBedrock has requests to a server signed with the credentials of the environment.
func (s *modelSet) signBedrock(server *modelhttp.Options, region string) error {
	credentials, err := bedrock.Environment(s.getenv)
	if err != nil {
		return err
	}
	server.HTTPClient, err = bedrock.NewClient(&bedrock.Options{Region: region,
		Credentials: func(context.Context) (bedrock.Credentials, error) { return credentials, nil }})
	return err
}
