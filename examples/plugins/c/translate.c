/* A tool that asks a server for a translation, with a key that the plugin never sees. */
#include "agenthost.h"

static void translate(ah_call *c) {
  ah_json question = ah_make(c, AH_JSON({"text": %t, "to": %t}), ah_get_text(c, c->arguments, "text"), ah_get_text(c, c->arguments, "to"));
  ah_response response = ah_fetch(c, ah_make(c, AH_JSON({
    "method": "POST", "url": "https://translate.example.com:8443/v1/translate", "body": %j,
    "headers": [{"name": "Content-Type", "value": "application/json"},
                {"name": "Authorization", "prefix": "Bearer ", "secret": "translate_key"}]}),
    ah_base64(c, (ah_text){question.at, question.size})));
  if (ah_failed(c)) return;
  if (response.status != 200) {
    ah_fail(c, AH_UNAVAILABLE, "the translation server answers with status %l", response.status);
    ah_hint(c, NULL, response.status >= 500); /* that may pass */
    return;
  }
  ah_return(c, AH_JSON({"text": %t}), ah_get_text(c, ah_parse(c, response.body), "text"));
}

AH_PLUGIN(
  .name = "translate", .version = "1.0.0", .description = "Translates texts.",
  .permissions = AH_JSON({
    "http": [{"host": "translate.example.com", "port": 8443, "methods": ["POST"]}],
    "secrets": [{"name": "translate_key", "hosts": ["translate.example.com:8443"]}]}),
  .tools = (const ah_tool[]){
    {.name = "translate", .description = "Translates a text into another language.", .read_only = true, .run = translate,
     .parameters = AH_JSON({"type": "object", "additionalProperties": false, "required": ["text", "to"], "properties": {
       "text": {"type": "string"}, "to": {"type": "string", "description": "A language code, such as de."}}})},
    {0}});
