import { z } from "zod";
import type { AccountType } from "../records/owner.rules.ts";
import { BALANCE_EVENT_DATA, EVENT_DATA } from "./events.rules.ts";
import type { FeedPosition, StoredEventContent } from "./events.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

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

/** How many endpoints an account can have in a mode. */
export const MAXIMUM_ENDPOINTS = 16;

/** How many secrets of an endpoint can sign at the same time. */
export const MAXIMUM_SECRETS = 5;

/** How long a replaced secret still signs. */
export const OLD_SECRET_HOURS = 24;

/** How far back undelivered events can be recovered. */
export const RECOVERY_DAYS = 14;

/** An endpoint is disabled after this many days of failed attempts only. */
export const FAILING_DAYS = 5;

/** Why an endpoint is disabled: by request, because its server answered 410, or after days of nothing but failures. */
export const DISABLED_REASONS = ["requested", "gone", "failing"] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** Where an operator lets deliveries be sent. */
export type WebhookSettings = {
  readonly allowsHttp: boolean;
  /** Networks that may be called although they are not public, such as `10.1.0.0/16`. */
  readonly allowedNetworks: readonly string[];
};

export const MAXIMUM_URL_LENGTH = 2048;

/**
 * Checks the URL of an endpoint and returns it in its normal form.
 * @throws DomainError request_invalid
 */
export const parseEndpointUrl = (
  given: string,
  { allowsHttp }: { readonly allowsHttp: boolean },
): string => {
  const url = URL.parse(given);
  // The normal form is stored, in an index. Escaped characters make it longer than what was given.
  if (url === null || url.href.length > MAXIMUM_URL_LENGTH) {
    throw invalidRequest(`url: must be a URL of at most ${MAXIMUM_URL_LENGTH} characters`);
  }
  if (url.protocol !== "https:" && !(allowsHttp && url.protocol === "http:")) {
    throw invalidRequest(
      allowsHttp ? "url: must begin with https:// or http://" : "url: must begin with https://",
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw invalidRequest(
      "url: must not have a user name or a password; verify the signature instead",
    );
  }
  if (url.hash !== "") {
    throw invalidRequest("url: must not have a fragment");
  }
  return url.href;
};

/**
 * Checks the types of an endpoint.
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

const SECRET_PREFIX = "whsec_";

/** Returns a secret as receivers configure it. */
export const formatSecret = (secret: Uint8Array): string =>
  `${SECRET_PREFIX}${btoa(String.fromCharCode(...secret))}`;
