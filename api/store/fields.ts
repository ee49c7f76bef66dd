import { z } from "zod";
import type { Kind, Mode } from "../../modules/records/owner.rules.ts";
import { REGISTER_OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import type { CustomerFilter, CustomerDetails } from "../../modules/stores/customers.rules.ts";
import { centsToDollars, dollarsToCents } from "../../modules/records/money.rules.ts";
import { blankAsNull } from "../../modules/records/fields.rules.ts";
import { mustBe } from "../../runtime/describeIssues.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import {
  anyCustomer,
  customerEmail,
  customerId,
  customerName,
  notes,
  orderId,
} from "../../modules/stores/customers.rules.ts";
import { optional } from "../http/parseRequest.ts";

export const KEY_MODES = { live: "PROD", test: "TEST" } as const satisfies Record<Mode, string>;

export const SUCCESS = "success" as const;

export const keyMode = () => z.enum(["PROD", "TEST"]).meta({ examples: ["PROD"] });

type Range = { readonly minimum: number; readonly maximum: number };

export const KIND_NAMES = {
  tree: {
    title: "Tree",
    plural: "trees",
    verb: "Plant",
    operation: REGISTER_OPERATIONS.tree,
    refundType: "tree",
    path: "/app/api/plant",
    countField: "trees_planted",
    listField: "trees",
  },
  bottle: {
    title: "Plastic",
    plural: "bottles",
    verb: "Rescue",
    operation: REGISTER_OPERATIONS.bottle,
    refundType: "plastic",
    path: "/app/api/plastic",
    countField: "bottles_rescued",
    listField: "plastics",
  },
} as const satisfies Record<Kind, Readonly<Record<string, string>>>;

/** An amount in dollars, read as cents. The range is in cents. */
export const dollars = ({ minimum, maximum }: Range) => {
  const range = { minimum: centsToDollars(minimum), maximum: centsToDollars(maximum) };
  const amount = `a number of US dollars from ${range.minimum} to ${range.maximum} with at most two decimals`;
  return z
    .number({ error: mustBe(amount) })
    .transform((given) => dollarsToCents(given) ?? Number.NaN)
    .refine((cents) => cents >= minimum && cents <= maximum, `must be ${amount}`)
    .meta({ ...range, multipleOf: 0.01 });
};

const EMAIL = "ann@example.com";

/** The fields of a write's body that describe its customer and order. The body is transformed by `withOneEmail`. */
export const orderFields = {
  customer_name: customerName()
    .optional()
    .meta({ examples: ["Ann Lee"] }),
  customer_email: customerEmail()
    .optional()
    .meta({ examples: [EMAIL] }),
  email: optional(customerEmail(), "Alias of customer_email.", EMAIL),
  customer_id: optional(customerId(), "The customer's id in the shop.", "7701"),
  order_id: orderId()
    .optional()
    .meta({ examples: ["#1001"] }),
};

/** Returns a text; undefined if it is blank, as if it were not given. */
export const unlessBlank = (text: string | undefined): string | undefined =>
  text === undefined || text.trim() === "" ? undefined : text;

/**
 * Returns a value that has several names; undefined if it is given under none, or blank.
 * @throws DomainError request_invalid if they differ
 */
export const valueOfAliases = <Value>(
  given: Readonly<Record<string, Value | undefined>>,
): Value | undefined => {
  const values = Object.values(given).filter(
    (value) => value !== undefined && String(value).trim() !== "",
  );
  if (values.some((value) => value !== values[0])) {
    const names = Object.keys(given);
    throw invalidRequest(
      `${String(names[0])}: ${names.join(", ")} are aliases; their values must match`,
    );
  }
  return values[0];
};

type Texts<Name extends string> = { readonly [Field in Name]?: string | undefined };

/** Transforms the body of a write: the customer's email address has one name. */
export const withOneEmail = <Body extends Texts<"customer_email" | "email">>({
  email,
  ...body
}: Body) => ({
  ...body,
  customer_email: valueOfAliases({ customer_email: body.customer_email, email }),
});

export const notesField = optional(notes(), "Stored with the record.", "loyalty redemption");

/** Returns the customer and order of a write; a blank text means that none was given. */
export const customerDetailsOf = (
  body: Texts<"customer_name" | "customer_email" | "customer_id" | "order_id" | "notes">,
): CustomerDetails => ({
  customerName: blankAsNull(body.customer_name ?? ""),
  customerEmail: blankAsNull(body.customer_email ?? ""),
  customerId: blankAsNull(body.customer_id ?? ""),
  orderId: blankAsNull(body.order_id ?? ""),
  notes: blankAsNull(body.notes ?? ""),
});

/** The query parameters that select a customer's records; blank ones are ignored. */
export const customerParameters = {
  customer_name: optional(customerName(), "A part of the name, in any case.", "ann"),
  customer_email: optional(customerEmail(), "The whole email address, in any case.", EMAIL),
  email: orderFields.email,
  customer_id: orderFields.customer_id,
  customer: optional(
    anyCustomer(),
    "A part of the name, the whole email address or the whole id.",
    "ann",
  ),
};

export const customerFilterOf = (
  query: Texts<"customer_name" | "customer_email" | "email" | "customer_id" | "customer">,
): CustomerFilter => ({
  name: unlessBlank(query.customer_name),
  email: unlessBlank(query.customer_email),
  emailAlias: unlessBlank(query.email),
  id: unlessBlank(query.customer_id),
  any: unlessBlank(query.customer),
});
