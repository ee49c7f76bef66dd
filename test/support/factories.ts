import type { DatabasePool } from "slonik";
import type { Clock } from "../../domain/clock.ts";
import { systemClock } from "../../domain/clock.ts";
import type { NewRegistration } from "../../domain/registrations/registrations.ts";
import type { CharitySettings } from "../../providers/charities/createCharities.ts";
import { createOrganization } from "../../services/accounts/createOrganization.ts";
import type {
  CreatedOrganization,
  NewOrganization,
} from "../../services/accounts/createOrganization.ts";

/** An organization of the test's own, with what the test does not care about filled in. */
export const createTestOrganization = (
  db: DatabasePool,
  { clock = systemClock, ...given }: Partial<NewOrganization> & { readonly clock?: Clock } = {},
): Promise<CreatedOrganization> =>
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

/** A registration as a client asks for it: one tree, with what the test does not care about filled in. */
export const registrationOf = (
  accountId: string,
  given: Partial<NewRegistration> = {},
): NewRegistration => ({
  accountId,
  mode: "live",
  kind: "tree",
  count: 1,
  fractionalCount: 0,
  idempotencyKey: null,
  attribution: "",
  metadata: {},
  ...given,
});

/** Nobody is asked about charities but the built-in catalogue. */
export const CATALOGUE_ONLY: CharitySettings = { everyorg: null, change: null, pledge: null };

let lastEin = 400_000_000;

/** No two tests of a file share one: details are kept for all. */
export const freshEin = (): string => {
  lastEin += 1;
  return String(lastEin);
};
