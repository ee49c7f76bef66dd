import { z } from "zod";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import { storedMetadata } from "../records/fields.rules.ts";

/** How long events are kept at least. */
export const EVENT_DAYS = 30;

/** The time from which on a client that reads the feed from its start gets the events. */
export const keptSince = (now: Date): Date => daysBefore(now, EVENT_DAYS);

/** The time before which events may be missing. A client that began at the start has a day to read faster than they expire. */
export const expiredBefore = (now: Date): Date => daysBefore(now, EVENT_DAYS + 1);

/** The time up to which events are deleted. The order of the feed differs from that of times by less than the day between. */
export const deletedBefore = (now: Date): Date => daysBefore(now, EVENT_DAYS + 2);

/** Why an endpoint is disabled: by request, because its server responded 410, or after days of nothing but failures. */
export const DISABLED_REASONS = ["requested", "gone", "failing"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

const timestamp = () => z.iso.datetime();

const donation = {
  donation_id: z.string(),
  amount_cents: z.int().min(1),
  currency: z.literal("USD"),
  ein: z.string(),
  nonprofit_id: z.string(),
  charity_name: z.string(),
};

const usage = z.strictObject({ kind: z.enum(KINDS), count: z.int(), registered_at: timestamp() });

/**
 * The data of each type of event. They are stored as clients receive them, because what an event says must not change with
 * its record.
 */
export const EVENT_DATA = {
  "registration.created": z.strictObject({
    registration_id: z.string(),
    kind: z.enum(KINDS),
    count: z.int().min(1),
    fractional_count: z.number(),
    idempotency_key: z.string(),
    attribution: z.string(),
    metadata: storedMetadata,
  }),
  "registration.refunded": z.strictObject({
    registration_id: z.string(),
    kind: z.enum(KINDS),
    count: z.int().min(1),
    remaining_count: z.int().min(0),
    reason: z.string(),
  }),
  "donation.created": z.strictObject({
    ...donation,
    idempotency_key: z.string(),
    attribution: z.string(),
    metadata: storedMetadata,
  }),
  "donation.refunded": z.strictObject({ ...donation, reason: z.string() }),
  "usage.failed": usage,
  "usage.recovered": usage,
  "evidence.milestone_reached": z.strictObject({
    order_id: z.int(),
    public_id: z.string(),
    milestone: z.enum(["funds_distributed", "allocated", "planted", "planted_and_verified"]),
    tree_count: z.int().min(0),
  }),
  "webhook_endpoint.disabled": z.strictObject({
    endpoint_id: z.string(),
    // Without the path, which may be a secret of another system.
    url_origin: z.string(),
    disabled_reason: z.enum(DISABLED_REASONS),
    last_error: z.string().nullable(),
  }),
} as const;

const balance = {
  shop_domain: z.string(),
  balance_cents: z.int().min(0),
  currency: z.literal("USD"),
};

/** The data of events that only stores have. Stores have webhook endpoints and no feed. */
export const STORE_EVENT_DATA = {
  "balance.low": z.strictObject({ ...balance, threshold_cents: z.int().min(0) }),
  "balance.depleted": z.strictObject({ ...balance, needed_cents: z.int().min(1) }),
} as const;

/** The types of the feed. */
export type EventType = keyof typeof EVENT_DATA;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.keys has no better type.
export const EVENT_TYPES = Object.keys(EVENT_DATA) as readonly EventType[] as readonly [
  EventType,
  ...EventType[],
];

type ContentOf<Schemas extends Readonly<Record<string, z.ZodType>>> = {
  readonly [Type in keyof Schemas]: { readonly type: Type; readonly data: z.output<Schemas[Type]> };
}[keyof Schemas];

export type EventContent = ContentOf<typeof EVENT_DATA>;

/** The events that are stored. A new registration is an event by itself. */
export type StoredEventContent =
  | Exclude<EventContent, { readonly type: "registration.created" }>
  | ContentOf<typeof STORE_EVENT_DATA>;

/** The place of an event in the feed: by the transaction that recorded it, then by its id. */
export type FeedPosition = {
  readonly transactionId: bigint;
  /** A UUID. */
  readonly id: string;
};

const EVENT_ID = /^evt_(?<transaction>[0-9a-f]{16})(?<uuid>[0-9a-f]{32})$/u;

/** Returns the id of an event as clients see it. Ids sort in the feed's order. */
export const eventIdOf = ({ transactionId, id }: FeedPosition): string =>
  `evt_${transactionId.toString(16).padStart(16, "0")}${id.replaceAll("-", "")}`;

/** Returns the place that an event's id stands for, or null if it is no such id. */
export const parseEventId = (given: string): FeedPosition | null => {
  const { transaction, uuid } = EVENT_ID.exec(given)?.groups ?? {};
  if (transaction === undefined || uuid === undefined) {
    return null;
  }
  const id = uuid.replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
  return { transactionId: BigInt(`0x${transaction}`), id };
};

/** An event as clients and operators see it. */
export const presentEvent = ({
  transactionId,
  id,
  createdAt,
  ...content
}: FeedPosition & EventContent & { readonly createdAt: Date }) => ({
  id: eventIdOf({ transactionId, id }),
  timestamp: createdAt.toISOString(),
  ...content,
});
