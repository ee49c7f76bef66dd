import { z } from "zod";
import { KINDS, MODES } from "../records/owner.rules.ts";

const units = (description: string) => z.int().meta({ description });

const sums = {
  registered: units("Units that were registered."),
  refunded: units(
    "Units of these registrations that were refunded, at any later time. `registered` - `refunded` is the sum of the others.",
  ),
  reported: units("Units that the payment processor has."),
  late: units(
    "Units that it has and no invoice has, such as those that it got after the invoice of their period was finalized.",
  ),
  failed: units("Units that it does not have, and about which the operator decides."),
  closed: units("Units that are never billed."),
  documented: units("Units that a separate invoice item bills, or a credit note returns."),
  pending: units("Units that are still to be reported."),
};

const period = z
  .strictObject({ start: z.iso.datetime(), end: z.iso.datetime() })
  .meta({ id: "StatementPeriod", description: "Its end is exclusive." });

const invoice = z
  .strictObject({
    number: z
      .string()
      .nullable()
      .meta({ examples: ["A1B2C3-0007"] }),
    period,
    invoiced: z
      .number()
      .nullable()
      .meta({ description: "Units on the invoice; null without one." }),
    reported: z.int().meta({ description: "Units that were reported for its period." }),
    problem: z
      .string()
      .nullable()
      .meta({
        description: "Why these units are not invoiced, or differ; null if they are invoiced once.",
        examples: ["5 trees on no invoice: sub_1 had ended"],
      }),
  })
  .meta({ id: "StatementInvoice" });

const day = z.strictObject({ day: z.iso.date(), ...sums }).meta({ id: "StatementDay" });

const kindStatement = z
  .strictObject({
    kind: z.enum(KINDS),
    period,
    ...sums,
    unit_price: z
      .strictObject({
        amount: z.string().meta({
          description: "A decimal number of the currency's smallest unit.",
          examples: ["45"],
        }),
        currency: z.string().meta({ examples: ["usd"] }),
      })
      .meta({ id: "UnitPrice" })
      .nullable()
      .meta({ description: "Null without one, or if it is not the same for each unit." }),
    invoices: z.array(invoice).meta({
      description:
        "Finalized invoices that have usage of the period, as of the last nightly comparison.",
    }),
    days: z.array(day).meta({ description: "Only days with usage, by registration, UTC." }),
  })
  .meta({ id: "KindStatement" });

export const statementJson = z
  .strictObject({
    mode: z.enum(MODES),
    subscription: z
      .strictObject({
        status: z.string().meta({ description: "Stripe's own word.", examples: ["active"] }),
        paused: z.string().nullable().meta({
          description: "How its collection is paused, in Stripe's own word; null if it is not.",
        }),
        trial: period.nullable().meta({ description: "The present or latest trial." }),
      })
      .meta({ id: "StatementSubscription" })
      .nullable()
      .meta({ description: "As it was last read; null in test mode and without one." }),
    statements: z.array(kindStatement),
  })
  .meta({ id: "Statement" });
