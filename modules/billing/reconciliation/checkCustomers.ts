import { findAccount } from "../../accounts/accounts.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { streamOfEvent } from "./reportedStreams.sql.ts";
import {
  CUSTOMER_UNKNOWN,
  customersInDoubt,
  decisiveCheck,
  isCustomerUnknown,
} from "./usageInDoubt.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { getProcessor } from "../createBilling.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { checkDelivery } from "../sending/checkDelivery.ts";
import type { DeliveryCheck } from "../sending/checkDelivery.ts";
import type { BillingContext } from "../context.ts";
import type { Decided } from "./requireUnchanged.ts";

const TIMEOUT_MS = 20_000;

/** An event at a customer that may have it, and what that customer's sums show. */
type CustomerCheck = DeliveryCheck & { readonly event: StoredMeterEvent };

const refuseUnknown = ({ id }: StoredMeterEvent): never => {
  throw invalidRequest(`meter event ${id}: ${CUSTOMER_UNKNOWN}`);
};

const findCurrentCustomer = async (
  { db }: Pick<BillingContext, "db">,
  { accountId }: StoredMeterEvent,
): Promise<string | null> => (await findAccount(db, accountId))?.stripeCustomerId ?? null;

const requireCustomers = (
  event: StoredMeterEvent,
  currentCustomerId: string | null,
): readonly [string | null, ...(readonly (string | null)[])] => {
  const [first, ...others] = customersInDoubt(event, currentCustomerId);
  return first === undefined ? refuseUnknown(event) : [first, ...others];
};

/**
 * Returns the customers that may have an event, its own first, and the organization's present one, on which they depend.
 * @throws DomainError request_invalid if none is known
 */
export const listCustomers = async (
  context: Pick<BillingContext, "db">,
  event: StoredMeterEvent,
): Promise<
  { readonly possible: ReturnType<typeof requireCustomers> } & Pick<Decided, "customers">
> => {
  const currentCustomerId = await findCurrentCustomer(context, event);
  return {
    possible: requireCustomers(event, currentCustomerId),
    customers: new Map([[event.accountId, currentCustomerId]]),
  };
};

/**
 * Checks one of the customers that may have an event. At the event's own customer, acknowledged drift counts as other usage.
 * At another one it may be the event's: that difference did not show the event when it was acknowledged. A comparison after
 * a restore counts it as other usage there, too: an acknowledgement that the restore has kept is older than the lost history.
 */
const checkCustomer = async (
  { db, clock, billing }: BillingContext,
  event: StoredMeterEvent,
  customerId: string | null,
): Promise<CustomerCheck> => {
  const located = { ...event, customerId };
  const processor = getProcessor(billing, event.processor, event.mode);
  const now = await readDatabaseTime(db, clock);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const check = await checkDelivery(processor, db, located, { now, signal });
  if (
    customerId === event.customerId ||
    check.outcome.kind === "delivered" ||
    !check.isAcknowledged
  ) {
    return { event: located, ...check };
  }
  const reason = "drift of that minute was acknowledged, and may be this usage";
  return { event: located, ...check, outcome: { kind: "unclear", reason } };
};

/**
 * Checks the customers that may have an event, until one has all of it.
 * @returns the check that decides, its customer if several were checked, and what the decision depends on
 * @throws DomainError request_invalid if no customer is known, several have parts of it, or one that is not known may have it
 * @throws ProcessorUnavailableError if the processor is not configured or cannot be reached
 */
export const checkCustomers = async (
  context: BillingContext,
  event: StoredMeterEvent,
): Promise<
  {
    readonly decisive: CustomerCheck;
    readonly decisiveCustomerId: string | null;
  } & Pick<Decided, "minutes" | "customers">
> => {
  const currentCustomerId = await findCurrentCustomer(context, event);
  const [first, ...others] = requireCustomers(event, currentCustomerId);
  const checks: [CustomerCheck, ...CustomerCheck[]] = [await checkCustomer(context, event, first)];
  for (const customerId of others) {
    if (checks.some(({ outcome }) => outcome.kind === "delivered")) {
      break;
    }
    checks.push(await checkCustomer(context, event, customerId));
  }
  const decisive = decisiveCheck(event, checks);
  const { kind } = decisive.outcome;
  if ((kind === "absent" || kind === "partial") && isCustomerUnknown(event, currentCustomerId)) {
    return refuseUnknown(event);
  }
  const decisiveCustomerId = checks.length > 1 ? decisive.event.customerId : null;
  const minutes = checks.map(({ event: located, othersVersion }) => ({
    stream: streamOfEvent(located),
    minute: minuteOf(located.second),
    without: [located.id],
    version: othersVersion,
  }));
  const customers = new Map([[event.accountId, currentCustomerId]]);
  return { decisive, decisiveCustomerId, minutes, customers };
};
