import { z } from "zod";
import type { AccountType } from "../records/owner.rules.ts";
import { EVENT_DATA, STORE_EVENT_DATA } from "./events.rules.ts";
import type { FeedPosition, StoredEventContent } from "./events.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/** The types of events that are sent. */
export type WebhookType = StoredEventContent["type"];

/** The types that the endpoints of an account can choose. */
export const WEBHOOK_TYPES_OF = {
  organization: [
    "registration.refunded",
    "donation.created",
    "donation.refunded",
    "usage.failed",
    "usage.recovered",
    "evidence.milestone_reached",
    "webhook_endpoint.disabled",
  ],
  store: [
    "balance.low",
    "balance.depleted",
    "registration.refunded",
    "donation.refunded",
    "evidence.milestone_reached",
    "webhook_endpoint.disabled",
  ],
} as const satisfies Record<AccountType, readonly WebhookType[]>;

export const WEBHOOK_TYPES: readonly WebhookType[] = [
  ...new Set(Object.values(WEBHOOK_TYPES_OF).flat()),
];

/** Means all types, including those of later releases. */
export const ALL_TYPES = "*";

/** The type that says to a new or silent receiver that it works. The feed does not show it. */
export const PING = "ping";

export const PING_DATA = z.strictObject({ endpoint_id: z.string() });

/** Text that a client or an operator wrote may hold personal data, so it stays in the feed. Add the name of each new such field. */
const PRIVATE_FIELDS: ReadonlySet<string> = new Set([
  "idempotency_key",
  "attribution",
  "metadata",
  "reason",
]);

const withoutPrivate = <Value>(fields: Readonly<Record<string, Value>>): Record<string, Value> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !PRIVATE_FIELDS.has(name)));

/** Returns the schema of the data that receivers get, without the sequence. */
export const webhookDataSchema = (type: WebhookType): z.ZodObject =>
  z.strictObject(withoutPrivate<z.ZodType>({ ...EVENT_DATA, ...STORE_EVENT_DATA }[type].shape));

/** A stored event. */
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
    data: { ...withoutPrivate(data), sequence: Number(transactionId) },
  });

/** How many endpoints an account can have in a mode. */
export const MAXIMUM_ENDPOINTS = 16;

/** How long a replaced secret still signs. */
export const OLD_SECRET_HOURS = 24;

/** How far back undelivered events can be recovered. */
export const RECOVERY_DAYS = 14;

/** An endpoint is disabled after this many days of failed attempts only. */
export const FAILING_DAYS = 5;

/** Where an operator lets deliveries be sent. */
export type WebhookSettings = {
  readonly allowsHttp: boolean;
  /** Networks that may be called although they are not public, such as `10.1.0.0/16`. */
  readonly allowedNetworks: readonly string[];
};

export const MAXIMUM_URL_LENGTH = 2048;

/**
 * @param types null for all
 * @throws DomainError request_invalid if an account of this type has no such events
 */
export const requireTypesOf = (owner: AccountType, types: readonly string[] | null): void => {
  const own: readonly string[] = WEBHOOK_TYPES_OF[owner];
  const unknown = types?.find((type) => !own.includes(type));
  if (unknown !== undefined) {
    const noun = owner === "store" ? "a store" : "an organization";
    throw invalidRequest(`types: ${noun} has no events ${unknown}, only ${own.join(", ")}`);
  }
};

/** Returns a secret as receivers configure it. */
export const formatSecret = (secret: Uint8Array): string =>
  `whsec_${btoa(String.fromCharCode(...secret))}`;
