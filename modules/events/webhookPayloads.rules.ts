import { z } from "zod";
import type { AccountType } from "../records/owner.rules.ts";
import type { FeedPosition, StoredEventContent } from "./events.rules.ts";
import { BALANCE_EVENT_DATA, EVENT_DATA } from "./events.rules.ts";

/**
 * What receivers get of an event's data. It is a selection: text that a client or an operator wrote, such as metadata,
 * attributions and reasons, may hold personal data and stays in the feed.
 */
export const WEBHOOK_DATA = {
  "registration.refunded": EVENT_DATA["registration.refunded"].omit({ reason: true }),
  "donation.created": EVENT_DATA["donation.created"].omit({
    idempotency_key: true,
    attribution: true,
    metadata: true,
  }),
  "donation.refunded": EVENT_DATA["donation.refunded"].omit({ reason: true }),
  "usage.failed": EVENT_DATA["usage.failed"],
  "usage.recovered": EVENT_DATA["usage.recovered"],
  "evidence.milestone_reached": EVENT_DATA["evidence.milestone_reached"],
  ...BALANCE_EVENT_DATA,
} as const satisfies Record<StoredEventContent["type"], z.ZodType>;

/** Says to a new or silent receiver that it works. It is no event of the feed. */
export const PING_DATA = z.strictObject({ endpoint_id: z.string() });

/** The types of events that are sent. */
export type WebhookType = keyof typeof WEBHOOK_DATA;

/** The types that the endpoints of an account can choose. */
export const WEBHOOK_TYPES_OF = {
  organization: [
    "registration.refunded",
    "donation.created",
    "donation.refunded",
    "usage.failed",
    "usage.recovered",
    "evidence.milestone_reached",
  ],
  store: ["balance.low", "balance.depleted", "evidence.milestone_reached"],
} as const satisfies Record<AccountType, readonly WebhookType[]>;

/** The types that are delivered. */
export type DeliveredType = WebhookType | "ping";

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.keys has no better type.
export const WEBHOOK_TYPES = Object.keys(WEBHOOK_DATA) as readonly WebhookType[];

export const DELIVERED_TYPES: readonly DeliveredType[] = [...WEBHOOK_TYPES, "ping"];

/** Returns the names of the fields of an event's data that its receivers get. */
export const webhookFieldsOf = (type: WebhookType): readonly string[] =>
  Object.keys(WEBHOOK_DATA[type].shape);

/** Returns the data of an event as its receivers get them, without the sequence. */
export const webhookDataOf = ({
  type,
  data,
}: {
  readonly type: WebhookType;
  readonly data: object;
}): object => {
  const fields = webhookFieldsOf(type);
  return Object.fromEntries(Object.entries(data).filter(([name]) => fields.includes(name)));
};

/** An event as it was stored for an endpoint. */
export type WebhookMessage = FeedPosition & {
  /** A type of this release or of another one. */
  readonly type: string;
  readonly occurredAt: Date;
  readonly data: Readonly<Record<string, unknown>>;
};

/** Returns the body of a delivery. It is the same text at every attempt. */
export const webhookBodyOf = ({ type, occurredAt, data, transactionId }: WebhookMessage): string =>
  JSON.stringify({
    type,
    timestamp: occurredAt.toISOString(),
    data: { ...data, sequence: Number(transactionId) },
  });
