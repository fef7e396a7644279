// The error of a call. AssemblyScript has no exceptions: a function that fails returns nothing
// (null, 0, "" or an absent value) and leaves its error, with which the call ends unless caught
// takes it out.

import { Obj, Json } from "./json";

export class Failure {
  hint: string | null = null;
  retryable: bool = false;
  constructor(public code: string, public message: string) {}

  toJson(): Json {
    const known = CODES.includes(this.code) ? this.code : "internal";
    const o = new Obj().string("code", known).string("message", this.message == "" ? known : this.message).string("hint", this.hint);
    if (this.retryable) o.bool("retryable", true);
    return o.toJson();
  }
}

const CODES: string[] = ["invalid_argument", "unauthenticated", "permission_denied", "not_found", "already_exists", "conflict",
  "resource_exhausted", "failed_precondition", "deadline_exceeded", "canceled", "unavailable", "unimplemented", "data_loss", "internal"];

let current: Failure | null = null;

// Ends the call with an error, unless it has one already. The model reads the message of a tool's.
export function fail(code: string, message: string, hint: string | null = null, retryable: bool = false): void {
  if (current !== null) return;
  const failure = new Failure(code, message);
  failure.hint = hint;
  failure.retryable = retryable;
  current = failure;
}

export function failed(): bool { return current !== null; }

// Takes the call's error away if it has this code, and reports whether it had.
export function caught(code: string): bool {
  const failure = current;
  if (failure === null || failure.code != code) return false;
  current = null;
  return true;
}

export function takeFailure(): Failure | null {
  const failure = current;
  current = null;
  return failure;
}
