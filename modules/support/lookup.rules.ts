import { z } from "zod";
import { normalizeCustomerId } from "../stores/customers.rules.ts";

export type FoundBy =
  | "id"
  | "imported_id"
  | "idempotency_key"
  | "refund_idempotency_key"
  | "attribution"
  | "metadata"
  | "order"
  | "customer_email"
  | "customer_id"
  | "customer_name"
  | "name"
  | "domain"
  | "key"
  | "stripe_customer"
  | "meter_event";

/** What an operator's text may be, and where it is searched for. */
export type Lookup = {
  readonly text: string;
  /** Null looks in all accounts. */
  readonly accountId: string | null;
  /** Of records of one kind. */
  readonly limit: number;
  /** The id of a record, an account or a refund; null if the text is none. */
  readonly id: string | null;
  /** The id of the refunded record, which may be imported, if the text is the id of a refund: `refund-<id>`. Null otherwise. */
  readonly refundedId: string | null;
  readonly customerId: string;
  /** A part of the name of a customer, an organization or a store. */
  readonly mayBeName: boolean;
  /** The number or the identifier of a meter event; null if the text is none. */
  readonly meterEvent: { readonly id: string } | { readonly identifier: string } | null;
};

/** The index of names consists of groups of three characters: a shorter part would read all of it. */
const SHORTEST_NAME = 3;

/** A meter event, as commands name it, or its number alone. */
const METER_EVENT = /^[Ee]?(?<id>\d{1,18})$/u;

/** Decides what a text may be, so that nothing is searched for in vain. */
export const parseLookup = (given: Pick<Lookup, "text" | "accountId" | "limit">): Lookup => {
  const text = given.text.trim();
  const refundedId = /^refund-(?<id>.+)$/u.exec(text)?.groups?.["id"] ?? null;
  const id = z.guid().safeParse(refundedId ?? text);
  const isIdentifier = text.startsWith("u1:");
  const meterEventId = METER_EVENT.exec(text)?.groups?.["id"];
  return {
    ...given,
    text,
    id: id.success ? id.data.toLowerCase() : null,
    refundedId,
    customerId: normalizeCustomerId(text),
    mayBeName:
      Array.from(text).length >= SHORTEST_NAME &&
      /\p{L}/u.test(text) &&
      !(id.success || isIdentifier || text.includes("@") || /^cus_\w+$/u.test(text)),
    meterEvent:
      meterEventId === undefined
        ? isIdentifier
          ? { identifier: text }
          : null
        : { id: meterEventId },
  };
};
