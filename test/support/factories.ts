import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { SERVICE } from "../../domain/accounts/audit.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../domain/accounts/limits.ts";
import type { Clock } from "../../domain/clock.ts";
import { systemClock } from "../../domain/clock.ts";
import type { NewRegistration } from "../../domain/registrations/registrations.ts";
import type { CharitySettings } from "../../providers/charities/createCharities.ts";
import { createOrganization } from "../../services/accounts/createOrganization.ts";
import type { UnusualDay } from "../../services/registrations/limits/createDailyCounts.ts";
import type { SpendingGuard } from "../../services/registrations/limits/createSpendingGuard.ts";
import { createSpendingGuard } from "../../services/registrations/limits/createSpendingGuard.ts";
import type {
  CreatedOrganization,
  NewOrganization,
} from "../../services/accounts/createOrganization.ts";

/** Creates an organization with defaults for everything that the test does not set. */
export const createTestOrganization = (
  db: DatabasePool,
  { clock = systemClock, ...given }: Partial<NewOrganization> & { readonly clock?: Clock } = {},
): Promise<CreatedOrganization> =>
  createOrganization(
    { db, clock, actor: SERVICE },
    {
      name: "Test Organization",
      fractionalCounting: false,
      billingDay: 1,
      stripeCustomerId: null,
      stripeSubscriptionId: null,
      ...given,
    },
  );

/** Returns a registration of one tree with defaults for everything that the test does not set. */
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

const UNLIMITED: AccountLimits = {
  requestsPerSecond: 1_000_000,
  concurrentRequests: 1_000_000,
  countPerRequest: Number.MAX_SAFE_INTEGER,
  countPerDay: null,
  testRecords: Number.MAX_SAFE_INTEGER,
};

/** Limits that no test reaches unless it sets them; the same for both modes. */
export const limitsForTests = (
  given: Partial<AccountLimits> = {},
): Readonly<Record<Mode, AccountLimits>> => ({
  live: { ...UNLIMITED, ...given },
  test: { ...UNLIMITED, ...given },
});

/** Creates a guard that stops at the test's end. */
export const createTestGuard = (
  t: ExecutionContext,
  {
    db,
    clock = systemClock,
    limits = {},
    onUnusualDay = () => undefined,
  }: {
    readonly db: DatabasePool;
    readonly clock?: Clock;
    readonly limits?: Partial<AccountLimits>;
    readonly onUnusualDay?: (day: UnusualDay) => void;
  },
): SpendingGuard => {
  const guard = createSpendingGuard({
    db,
    clock,
    defaults: limitsForTests(limits),
    onUnusualDay,
    onError: (error) => t.log(String(error)),
  });
  t.teardown(guard.stop);
  return guard;
};

/** The built-in catalogue is the only charity provider. */
export const CATALOGUE_ONLY: CharitySettings = { everyorg: null, change: null, pledge: null };

let lastEin = 400_000_000;

/** Returns an EIN that no other test of the file uses, because charity details are cached. */
export const freshEin = (): string => {
  lastEin += 1;
  return String(lastEin);
};
