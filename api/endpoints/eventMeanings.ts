import type { DeliveredType, WEBHOOK_DATA } from "../../modules/events/webhooks.rules.ts";

/** What each type of event says, in the feed and in webhooks. */
export const EVENT_MEANINGS = {
  "registration.created": "Trees or bottles were registered. `data` is as registered.",
  "registration.refunded":
    "`count` units of a registration were refunded, and `remaining_count` are left.",
  "donation.created": "A donation was recorded.",
  "donation.refunded": "A donation was refunded.",
  "usage.failed":
    "The payment processor refused the usage of the registrations of one second, or it is unknown whether it has it. " +
    "`count` is negative for refunds. It is not billed until the operator acts.",
  "usage.recovered":
    "Usage that had failed is reported again, or the processor turned out to have it.",
  "evidence.milestone_reached":
    "A planting order has reached a milestone, and so have its trees. Their evidence names the order as `order_id`.",
  "balance.low": "The balance has passed below the store's low-balance threshold.",
  "balance.depleted":
    "A write was rejected, because the balance does not cover it. Further ones are not reported until the balance has risen.",
} as const satisfies Record<"registration.created" | keyof typeof WEBHOOK_DATA, string>;

/** Returns the name of a type in the API description: `RegistrationCreated` for `registration.created`. */
export const schemaNameOf = (type: DeliveredType | "registration.created"): string =>
  type.replaceAll(/(?:^|[._])(\w)/gu, (_, letter: string) => letter.toUpperCase());
