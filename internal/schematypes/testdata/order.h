#include "agenthost.h"

/* C reads nothing by itself: ah_get, ah_string, ah_read_int and ah_iterate take members out of an ah_json.
 * A text or value that is absent has at == NULL, and a structure is NULL. Alternatives, objects
 * with members of any name, and lists of lists are ah_json. */

/* An order of a shop. */
struct order {
  /* minimum 1 */
  /* "id" */
  int64_t id;
  /* Where it is. */
  /* "state", one of "open", "paid" */
  ah_text state;
  /* "content-type" */
  ah_text content_type;
  /* "lines" */
  const struct order_lines_item *lines;
  uint32_t lines_count;
  /* "to" */
  const struct address *to;
  /* "labels" */
  ah_json labels;
  /* "note" */
  ah_text note;
  /* "by" */
  ah_json by;
  /* "extra" */
  ah_json extra;
};

struct order_lines_item {
  /* "sku" */
  ah_text sku;
  /* default 1 */
  /* "count" */
  bool has_count;
  int64_t count;
};

struct address {
  /* "street" */
  ah_text street;
  /* "next" */
  const struct address *next;
};
