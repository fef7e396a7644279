/* A processor that takes mail addresses and card numbers out of what models see. */
#include "agenthost.h"

static bool is_digit(char b) { return b >= '0' && b <= '9'; }
static bool is_word(char b) { return b == '_' || is_digit(b) || (b >= 'A' && b <= 'Z') || (b >= 'a' && b <= 'z'); }
static bool is_domain(char b) { return is_word(b) || b == '.' || b == '-'; }
static bool is_local(char b) { return is_domain(b) || b == '%' || b == '+'; }

/* domain_end returns where a domain ends that begins at p: behind its last letter. It is p
 * itself if no domain begins there. */
static const char *domain_end(const char *p, const char *end) {
  const char *last = p;
  for (const char *q = p; q < end && (is_word(*q) || (q > p && is_domain(*q))); q++)
    if (is_word(*q)) last = q + 1;
  return last;
}

/* hide_mail replaces addresses: a run of letters before an @, and a domain behind it. */
static ah_text hide_mail(ah_call *c, ah_text text) {
  ah_buffer out = {0};
  const char *rest = text.at, *end = text.at + text.size;
  for (const char *at = rest; at < end; at++) {
    if (*at != '@') continue;
    const char *from = at, *to = domain_end(at + 1, end);
    while (from > rest && is_local(from[-1])) from--;
    if (from == at || to == at + 1) from = to = at + 1; /* no address */
    ah_add(c, &out, rest, (uint32_t)(from - rest));
    if (to > at + 1) ah_add_c(c, &out, "[mail]");
    rest = to;
    at = to - 1;
  }
  if (rest == text.at) return text;
  ah_add(c, &out, rest, (uint32_t)(end - rest));
  return (ah_text){out.at, out.size};
}

/* hide_cards replaces runs of 13 digits or more, between which may be single spaces or hyphens. */
static ah_text hide_cards(ah_call *c, ah_text text) {
  ah_buffer out = {0};
  const char *rest = text.at, *end = text.at + text.size;
  for (const char *p = rest; p < end; p++) {
    int digits = 0;
    const char *from = p, *next = p;
    while (next < end && is_digit(*next)) {
      digits++;
      p = next++;
      if (next < end && (*next == ' ' || *next == '-')) next++;
    }
    if (digits < 13) continue;
    ah_add(c, &out, rest, (uint32_t)(from - rest));
    ah_add_c(c, &out, "[card]");
    rest = p + 1;
  }
  if (rest == text.at) return text;
  ah_add(c, &out, rest, (uint32_t)(end - rest));
  return (ah_text){out.at, out.size};
}

static ah_text hide(ah_call *c, ah_text text) { return hide_cards(c, hide_mail(c, text)); }

static void redact(ah_call *c) { ah_map_text(c, hide); } /* messages that do not change are not sent back */

AH_PLUGIN(
  .name = "redact", .version = "1.0.0", .description = "Hides mail addresses and card numbers from models.",
  .processors = (const ah_processor[]){{.name = "redact", .run = redact}, {0}});
