import { z } from "zod";
import type { Mode } from "../../modules/records/owner.rules.ts";
import type { CustomerFilter, CustomerDetails } from "../../modules/stores/customers.rules.ts";
import { centsToDollars, dollarsToCents } from "../../modules/records/money.rules.ts";
import { blankAsNull } from "../../modules/records/fields.rules.ts";
import { mustBe } from "../../runtime/describeIssues.rules.ts";
import {
  anyCustomer,
  customerEmail,
  customerId,
  customerName,
  notes,
  orderId,
} from "../../modules/stores/customers.rules.ts";

/** The names of the modes on this interface. */
export const KEY_MODES = { live: "PROD", test: "TEST" } as const satisfies Record<Mode, string>;

/** The `status` of every successful response. */
export const SUCCESS = "success" as const;

export const keyMode = () => z.enum(["PROD", "TEST"]).meta({ examples: ["PROD"] });

type Range = { readonly minimum: number; readonly maximum: number };

const amountOf = ({ minimum, maximum }: Range): string =>
  `a number of US dollars from ${centsToDollars(minimum)} to ${centsToDollars(maximum)} with at most two decimals`;

const dollarsMustBe = (range: Range): string => `must be ${amountOf(range)}`;

/** An amount in dollars, read as cents. The range is in cents. */
export const dollars = ({ minimum, maximum }: Range) =>
  z
    .number({ error: mustBe(amountOf({ minimum, maximum })) })
    .transform((given, context): number => {
      const cents = dollarsToCents(given);
      if (cents === null || cents < minimum || cents > maximum) {
        context.addIssue({ code: "custom", message: dollarsMustBe({ minimum, maximum }) });
        return z.NEVER;
      }
      return cents;
    })
    .meta({
      minimum: centsToDollars(minimum),
      maximum: centsToDollars(maximum),
      multipleOf: 0.01,
    });

const EMAIL = { examples: ["ann@example.com"] };
const ID = { description: "The customer's id in the shop.", examples: ["7701"] };

/** The fields of a write's body that describe its customer and order. The body is transformed by `withOneEmail`. */
export const orderFields = {
  customer_name: customerName()
    .optional()
    .meta({ examples: ["Ann Lee"] }),
  customer_email: customerEmail().optional().meta(EMAIL),
  email: customerEmail()
    .optional()
    .meta({ description: "Alias of customer_email.", ...EMAIL }),
  customer_id: customerId().optional().meta(ID),
  order_id: orderId()
    .optional()
    .meta({ examples: ["#1001"] }),
};

export const isGiven = (value: string | undefined): value is string =>
  value !== undefined && value.trim() !== "";

/** Fields that may be absent. */
type Texts<Name extends string> = { readonly [Field in Name]?: string | undefined };

/** Transforms the body of a write: the customer's email address has one name. */
export const withOneEmail = <Body extends Texts<"customer_email" | "email">>(
  { email, ...body }: Body,
  context: z.core.$RefinementCtx,
) => {
  const given = [body.customer_email, email].filter(isGiven);
  if (given.some((address) => address !== given[0])) {
    context.addIssue({
      code: "custom",
      path: ["customer_email"],
      message: "customer_email, email are aliases; their values must match",
    });
  }
  return { ...body, customer_email: given[0] };
};

export const notesField = notes()
  .optional()
  .meta({ description: "Stored with the record.", examples: ["loyalty redemption"] });

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
  customer_name: customerName()
    .optional()
    .meta({ description: "A part of the name, in any case.", examples: ["ann"] }),
  customer_email: customerEmail()
    .optional()
    .meta({ description: "The whole email address, in any case.", ...EMAIL }),
  email: orderFields.email,
  customer_id: orderFields.customer_id,
  customer: anyCustomer()
    .optional()
    .meta({
      description: "A part of the name, the whole email address or the whole id.",
      examples: ["ann"],
    }),
};

export const customerFilterOf = (
  query: Texts<"customer_name" | "customer_email" | "email" | "customer_id" | "customer">,
): CustomerFilter => {
  const emails = [query.customer_email, query.email].filter(isGiven);
  return {
    ...(isGiven(query.customer_name) ? { name: query.customer_name } : {}),
    ...(emails.length === 0 ? {} : { emails }),
    ...(isGiven(query.customer_id) ? { id: query.customer_id } : {}),
    ...(isGiven(query.customer) ? { any: query.customer } : {}),
  };
};
