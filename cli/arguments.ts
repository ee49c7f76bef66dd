import { InvalidArgumentError } from "commander";
import { z } from "zod";
import { MODES, SUBSCRIPTION_POLICIES, CHARITY_PROVIDERS } from "../domain/accounts/accounts.ts";
import type { Mode } from "../domain/accounts/accounts.ts";
import type { Period } from "../domain/billing/billingCycle.ts";
import { monthlyCycle } from "../domain/billing/billingCycle.ts";
import { EVENT_TYPES } from "../domain/events/events.ts";
import { WEBHOOK_TYPES, WEBHOOK_TYPES_OF } from "../domain/events/webhookPayloads.ts";
import { SHORT_TEXT_LENGTH, shortText, text } from "../domain/fields.ts";
import { mayReceiveKeys } from "../domain/loopback.ts";
import { importedId } from "../domain/recordIds.ts";

/*
 * Parsers of arguments. Commander shows their error messages after the name of the argument.
 */

export const parserOf =
  <Value>(schema: z.ZodType<Value>, mustBe: string) =>
  (given: string): Value => {
    const result = schema.safeParse(given);
    if (!result.success) {
      throw new InvalidArgumentError(`Must be ${mustBe}.`);
    }
    return result.data;
  };

/** Parses an argument or an option that may be repeated. */
export const collect =
  <Value>(parse: (given: string) => Value) =>
  (given: string, earlier: readonly Value[] = []): readonly Value[] => [...earlier, parse(given)];

/** A whole number as text. */
export const wholeNumber = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/u)
    .transform(Number)
    .pipe(z.int().min(minimum).max(maximum));

/** Text of limited length that is not blank. */
export const nonBlank = (maximum: number) => text(maximum).refine((given) => given.trim() !== "");

/** Parses text without the spaces around it. */
const trimmed = (maximum: number) =>
  parserOf(z.string().trim().min(1).max(maximum), `1 to ${maximum} characters`);

/** An id that the database has generated. */
const generatedId = z
  .string()
  .regex(/^\d{1,18}$/u)
  .transform(BigInt);

const id = z.guid().transform((given) => given.toLowerCase());

export const parseId = parserOf(id, "an id, such as 0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11");

/** The id of a record, which may be one that it was imported with. */
export const parseRecordId = parserOf(importedId(), "an id of at most 64 characters");

export const parseMeterEventId = parserOf(generatedId, "the id of a meter event");

/** A meter event, or a registration whose failed meter events are meant. */
export type RetryId = { readonly meterEventId: bigint } | { readonly registrationId: string };

export const parseRetryId = parserOf<RetryId>(
  z.union([
    generatedId.transform((meterEventId) => ({ meterEventId })),
    id.transform((registrationId) => ({ registrationId })),
  ]),
  "the id of a meter event or a registration",
);

/** The id of a difference that a reconciliation listed. */
export const parseDifferenceId = parserOf(generatedId, "the id of a difference");

/** One part of a path. */
export const parseSlug = parserOf(
  text(200).regex(/^[^/?#\s]+$/u),
  "1 to 200 characters without slashes, question marks, number signs and spaces",
);

/** The name of another system. It distinguishes its records from those of other systems, so it has no slash. */
export const parseSource = parserOf(
  text(100).regex(/^[^/\s](?:[^/]*[^/\s])?$/u),
  "1 to 100 characters without slashes",
);

export const parseMode = parserOf<Mode>(z.enum(MODES), "live or test");

export const parseBillingDay = parserOf(wholeNumber(1, 31), "a day of the month, 1 to 31");

export const parseLimit = parserOf(wholeNumber(1, 100_000), "a number from 1 to 100000");

/** Every record that is found costs several queries. */
export const parseFindLimit = parserOf(wholeNumber(1, 1000), "a number from 1 to 1000");

export const parseSearchText = parserOf(
  nonBlank(SHORT_TEXT_LENGTH),
  `1 to ${SHORT_TEXT_LENGTH} characters`,
);

/** The id of an event at the processor. */
export const parseProcessorEventId = parserOf(
  z.string().regex(/^[\w-]{1,255}$/u),
  "the id of an event, such as evt_1NG8Du2eZvKYlo2CUI79vXWy",
);

/** Returns a parser of names with commas between them; a name that is repeated counts once. */
const namesFrom = <const Name extends string>(names: readonly Name[]) =>
  parserOf(
    z
      .string()
      .transform((given) => [...new Set(given.split(","))])
      .pipe(z.array(z.enum(names))),
    `one or more of ${names.join(", ")}, with commas between them`,
  );

export const parseEventTypes = namesFrom(EVENT_TYPES);

/** Types of events that `webhook listen` sends. */
export const parseListenTypes = namesFrom(WEBHOOK_TYPES_OF.organization);

/** Types of events that webhooks send. */
export const parseWebhookTypes = namesFrom(WEBHOOK_TYPES);

/** The id of an event of the feed. */
export const parseEventId = parserOf(
  z.string().regex(/^evt_[0-9a-f]{48}$/u),
  "the id of an event, evt_ and 48 characters",
);

export const parsePath = parserOf(z.string().min(1), "the path of a file");

/** The id of a document at the processor. */
export const parseDocument = trimmed(200);

export const parseRefundKey = parserOf(shortText().min(1), `1 to ${SHORT_TEXT_LENGTH} characters`);

export const parseCount = parserOf(
  wholeNumber(1, Number.MAX_SAFE_INTEGER),
  `a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`,
);

/** The units of a meter event, which are negative for a refund. */
export const parseUnits = parserOf(
  z
    .string()
    .regex(/^-?\d{1,16}$/u)
    .transform(Number)
    .pipe(z.int()),
  "a whole number, with a minus sign for a refund",
);

export const parseStripeCustomer = parserOf(z.string().regex(/^cus_\w+$/u), "a Stripe id, cus_…");

export const parseStripeSubscription = parserOf(
  z.string().regex(/^sub_\w+$/u),
  "a Stripe id, sub_…",
);

/** Removes a value. Not null, because commander turns that into an empty string. */
export const NONE = "none";

export type OrNone<Value> = Value | typeof NONE;

export const nullIfNone = <Value>(given: OrNone<Value>): Value | null =>
  given === NONE ? null : given;

export const orNone =
  <Value>(parse: (given: string) => Value) =>
  (given: string): OrNone<Value> =>
    given === NONE ? NONE : parse(given);

export const parseSwitch = parserOf(
  z.enum(["on", "off"]).transform((given) => given === "on"),
  "on or off",
);

export const parseCharityProvider = parserOf(
  z.enum(CHARITY_PROVIDERS),
  `one of ${CHARITY_PROVIDERS.join(", ")}`,
);

export const parseSubscriptionPolicy = parserOf(
  z.enum(SUBSCRIPTION_POLICIES),
  `one of ${SUBSCRIPTION_POLICIES.join(", ")}`,
);

const url = z.url({ protocol: /^https?$/u });

export const parseUrl = parserOf(url, "an http:// or https:// URL");

/** The URL of an interface that keys are sent to, without slashes at its end, because paths are appended. */
export const parseApiUrl = parserOf(
  url.refine(mayReceiveKeys).transform((given) => given.replace(/\/+$/u, "")),
  "an https:// URL, unless its host is localhost or a loopback address",
);

export const parseReason = trimmed(500);

export const parseOperator = trimmed(100);

export const parseKeyName = trimmed(100);

/** PostgreSQL has no year 0, and reads no year of five digits. */
const timestamp = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()])
  .transform((given) => new Date(given))
  .refine((time) => /^(?!0000)\d{4}-/u.test(time.toISOString()));

/** Parses a time, or a date as its start in UTC. */
export const parseTimestamp = parserOf(
  timestamp,
  "a date in UTC (2025-06-01) or a time (2025-06-01T12:00:00Z)",
);

/** A time, or a number of days from now. */
export type Expiry = Date | { readonly days: number };

/** Parses when something expires. Ten years are enough for a rotation and too few for a mistyped century. */
export const parseExpiry = parserOf<Expiry>(
  z.union([
    z
      .string()
      .regex(/^\d{1,4}d$/u)
      .transform((given) => Number(given.slice(0, -1)))
      .pipe(z.int().min(1).max(3660))
      .transform((days) => ({ days })),
    timestamp,
  ]),
  "a date in UTC (2027-01-31), a time (2027-01-31T12:00:00Z), or days from now (1d to 3660d)",
);

/** Selects the current billing cycle of the account and the kind. */
export const CURRENT = "current";

/** Parses a month in UTC. Not null for the current cycle, because commander turns that into an empty string. */
export const parsePeriod = parserOf(
  z.union([
    z.literal(CURRENT),
    z
      .string()
      .regex(/^[1-9]\d{3}-(?:0[1-9]|1[0-2])$/u)
      .transform((month): Period => monthlyCycle(1, new Date(`${month}-01T00:00:00Z`))),
  ]),
  "a month (2025-06) or current",
);
