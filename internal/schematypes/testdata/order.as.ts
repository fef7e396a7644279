import { Json } from "./agenthost";

function textIn(v: Json): string {
  const s = v.string();
  return s === null ? "" : s;
}

// An order of a shop.
export class Order {
  // minimum 1
  // "id"
  id: i64 = 0;
  // Where it is.
  // "state", one of "open", "paid"
  state: string | null = null;
  // "content-type"
  contentType: string | null = null;
  // "lines"
  lines: OrderLinesItem[] = [];
  // "to"
  to: Address | null = null;
  // "labels"
  labels: Json | null = null;
  // "note"
  note: string | null = null;
  // "by"
  by: Json | null = null;
  // "extra"
  extra: Json | null = null;

  constructor(from: Json) {
    const v0 = from.get("id");
    if (v0 !== null && !v0.isNull) { this.id = v0.int(); }
    const v1 = from.get("state");
    if (v1 !== null && !v1.isNull) { this.state = textIn(v1); }
    const v2 = from.get("content-type");
    if (v2 !== null && !v2.isNull) { this.contentType = textIn(v2); }
    const v3 = from.get("lines");
    if (v3 !== null && !v3.isNull) {
      const items = v3.items();
      for (let i = 0; i < items.length; i++) this.lines.push(new OrderLinesItem(items[i]));
    }
    const v4 = from.get("to");
    if (v4 !== null && !v4.isNull) { this.to = new Address(v4); }
    const v5 = from.get("labels");
    if (v5 !== null && !v5.isNull) { this.labels = v5; }
    const v6 = from.get("note");
    if (v6 !== null && !v6.isNull) { this.note = textIn(v6); }
    const v7 = from.get("by");
    if (v7 !== null && !v7.isNull) { this.by = v7; }
    const v8 = from.get("extra");
    if (v8 !== null && !v8.isNull) { this.extra = v8; }
  }
}

export class OrderLinesItem {
  // "sku"
  sku: string = "";
  // default 1
  // "count"
  count: i64 = 0;
  hasCount: bool = false;

  constructor(from: Json) {
    const v0 = from.get("sku");
    if (v0 !== null && !v0.isNull) { this.sku = textIn(v0); }
    const v1 = from.get("count");
    if (v1 !== null && !v1.isNull) { this.count = v1.int(); this.hasCount = true; }
  }
}

export class Address {
  // "street"
  street: string | null = null;
  // "next"
  next: Address | null = null;

  constructor(from: Json) {
    const v0 = from.get("street");
    if (v0 !== null && !v0.isNull) { this.street = textIn(v0); }
    const v1 = from.get("next");
    if (v1 !== null && !v1.isNull) { this.next = new Address(v1); }
  }
}
