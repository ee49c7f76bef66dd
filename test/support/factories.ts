import type { DatabasePool } from "slonik";
import { setAccountLimit } from "../../modules/accounts/accountLimits.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import type { Mode, Owner } from "../../modules/records/owner.rules.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import type { RefundedItem } from "../../modules/registrations/writeRefunds.ts";
import type { NewLimit } from "../../modules/accounts/limits.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createOrganization } from "../../modules/accounts/manageOrganizations.ts";
import type {
  NewRegistration,
  Registration,
} from "../../modules/registrations/registrations.rules.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import type {
  CreatedOrganization,
  NewOrganization,
} from "../../modules/accounts/manageOrganizations.ts";

/** Creates an organization with defaults for everything that the test does not set. */
export const createTestOrganization = (
  db: DatabasePool,
  { clock = systemClock, ...given }: Partial<NewOrganization> & { readonly clock?: Clock } = {},
): Promise<CreatedOrganization> =>
  createOrganization({ db, clock, actor: SERVICE }, { name: "Test Organization", ...given });

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
  isLimited: false,
  ...given,
});

/** Registers a tree of an account, or what the test sets. */
export const registerFor = async (
  db: DatabasePool,
  accountId: string,
  { clock = systemClock, ...given }: Partial<NewRegistration> & { readonly clock?: Clock } = {},
): Promise<Registration> => {
  const writer = createRegistrationWriter({ db, clock });
  return (await writer.register(registrationOf(accountId, given))).registration;
};

/** Refunds units of an owner's registration, by default all that are left. Without a processor, the ledger bills. */
export const refundFor = (
  { billing, ...context }: Partial<BillingContext> & Pick<BillingContext, "db" | "clock">,
  owner: Owner,
  id: string,
  count: number | null = null,
): Promise<RefundedItem> => {
  const used = billing ?? createBilling({ db: context.db, stripe: null });
  const request = { id, count, reason: null, idempotencyKey: null };
  return refundRegistration({ ...context, billing: used }, owner, request);
};

/** Sets the limit of an account's production key as an operator would. */
export const setLimits = (
  db: DatabasePool,
  accountId: string,
  { countPerDay }: Pick<NewLimit, "countPerDay">,
  mode: Mode = "live",
) => setAccountLimit(db, accountId, { mode, countPerDay });

let lastEin = 400_000_000;

/** Returns an EIN that no other test of the file uses, because charity details are cached. */
export const freshEin = (): string => {
  lastEin += 1;
  return String(lastEin);
};
