import type { Actor } from "./audit.rules.ts";
import type { Context } from "../../runtime/context.ts";

/** What a change by an operator needs. A use case that its client or partner calls too takes a `Partial` of it. */
export type OperatorContext<Who extends Actor | null = Actor> = Context & {
  /** Null for the account's own client, whose requests are not in the audit log. */
  readonly actor: Who;
};
