import { InvalidArgumentError } from "@commander-js/extra-typings";
import { z } from "zod";
import { MODES } from "../modules/records/owner.rules.ts";
import type { Mode } from "../modules/records/owner.rules.ts";
import { SHORT_TEXT_LENGTH, text } from "../modules/records/fields.rules.ts";
import { importedId } from "../modules/records/recordIds.rules.ts";

/* Parsers of arguments. Commander shows their error messages after the name of the argument. */

export const parserOf =
  <Value>(schema: z.ZodType<Value>, mustBe: string) =>
  (given: string): Value => {
    const result = schema.safeParse(given);
    if (!result.success) {
      throw new InvalidArgumentError(`Must be ${mustBe}.`);
    }
    return result.data;
  };

export const collect =
  <Value>(parse: (given: string) => Value) =>
  (given: string, earlier: readonly Value[] = []): readonly Value[] => [...earlier, parse(given)];

export const wholeNumber = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/u)
    .transform(Number)
    .pipe(z.int().min(minimum).max(maximum));

export const nonBlank = (maximum: number) => text(maximum).refine((given) => given.trim() !== "");

export const trimmed = (maximum: number) =>
  parserOf(z.string().trim().pipe(nonBlank(maximum)), `1 to ${maximum} characters`);

const guid = z.guid().transform((given) => given.toLowerCase());

export const parseId = parserOf(guid, "an id, such as 0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11");

/** The id of a record, which may be one that it was imported with. */
export const parseRecordId = parserOf(importedId(), "an id of at most 64 characters");

export const parseMode = parserOf<Mode>(z.enum(MODES), "live or test");

export const parseLimit = parserOf(wholeNumber(1, 100_000), "a number from 1 to 100000");

export const parseSearchText = parserOf(
  nonBlank(SHORT_TEXT_LENGTH),
  `1 to ${SHORT_TEXT_LENGTH} characters`,
);

/** Returns a parser of names with commas between them; a name that is repeated counts once. */
export const namesFrom = <const Name extends string>(names: readonly Name[]) =>
  parserOf(
    z
      .string()
      .transform((given) => [...new Set(given.split(","))])
      .pipe(z.array(z.enum(names))),
    `one or more of ${names.join(", ")}, with commas between them`,
  );

export const parseEventId = parserOf(
  z.string().regex(/^evt_[0-9a-f]{48}$/u),
  "the id of an event, evt_ and 48 characters",
);

export const parsePath = parserOf(z.string().min(1), "the path of a file");

export const parseCount = parserOf(
  wholeNumber(1, Number.MAX_SAFE_INTEGER),
  `a whole number from 1 to ${Number.MAX_SAFE_INTEGER}`,
);

export const parseStripeCustomer = parserOf(z.string().regex(/^cus_\w+$/u), "a Stripe id, cus_…");

/** Returns the fields that are not undefined: those whose options are given. */
export const onlyGiven = <Fields extends object>(fields: Fields) =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.entries loses the names.
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };

/** Returns a parser of a value, or of the word that removes it. */
export const orNone =
  <Value>(parse: (given: string) => Value) =>
  (given: string): Value | null =>
    given === "none" ? null : parse(given);

export const parseSwitch = parserOf(
  z.enum(["on", "off"]).transform((given) => given === "on"),
  "on or off",
);

export const parseReason = trimmed(500);

export const parseOperator = trimmed(100);

/** PostgreSQL has no year 0, and reads no year of five digits. */
export const timestamp = z
  .union([z.iso.datetime({ offset: true }), z.iso.date()])
  .transform((given) => new Date(given))
  .refine((time) => /^(?!0000)\d{4}-/u.test(time.toISOString()));

export const parseTimestamp = parserOf(
  timestamp,
  "a date in UTC (2025-06-01) or a time (2025-06-01T12:00:00Z)",
);
