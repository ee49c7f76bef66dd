import type { AccountType } from "../../modules/records/owner.rules.ts";
import type { ErrorResponse } from "../http/endpoint.ts";

/** The HTTP interface that webhook endpoints are managed on. */
export type WebhookInterface = {
  /** Of the accounts whose events are sent. */
  readonly accountType: AccountType;
  /** What its paths begin with. */
  readonly prefix: string;
  readonly keyError: ErrorResponse;
};
