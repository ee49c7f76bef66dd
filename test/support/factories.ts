import type { DatabasePool } from "slonik";
import type { Clock } from "../../domain/clock.ts";
import { systemClock } from "../../domain/clock.ts";
import { createOrganization } from "../../services/createOrganization.ts";
import type { NewOrganization } from "../../services/createOrganization.ts";

/** An organization of the test's own, with what the test does not care about filled in. */
export const createTestOrganization = (
  db: DatabasePool,
  { clock = systemClock, ...given }: Partial<NewOrganization> & { readonly clock?: Clock } = {},
): ReturnType<typeof createOrganization> =>
  createOrganization(
    { db, clock },
    {
      name: "Test Organization",
      fractionalCounting: false,
      billingDay: 1,
      stripeCustomerId: null,
      stripeSubscriptionId: null,
      ...given,
    },
  );
