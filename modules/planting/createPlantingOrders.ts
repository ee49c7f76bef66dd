import { insertPlantingOrder, listAccountsWithUnorderedTrees } from "./orders.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { newId } from "../../runtime/newId.ts";
import type { PlantingContext } from "./context.ts";

/** Makes a transaction of a third of a second. A million registrations become a hundred orders. */
const REGISTRATIONS_PER_ORDER = 10_000;
const ACCOUNTS_PER_PAGE = 200;

/** The workflows of the created orders start after a run. What remains then is for the next run. */
const MAXIMUM_RUN_MS = 30 * 60 * 1000;

/** Simulated orders plant nothing, so they must not take the machine from what clients do. */
const SIMULATED_ORDERS_PER_SECOND = 1;

type Account = AccountMode & {
  readonly name: string;
  /** The last order of earlier runs. */
  readonly lastOrderId: number | null;
};

/** An account, and the last registration of its previous order in this run. */
type NextOrder = { readonly account: Account; readonly after: string | null };

/**
 * Creates planting orders of all accounts' registered trees that are in no order and not refunded. An account with more trees
 * than an order may have gets its next order after the others have one. No tree is ever in two orders; the next call
 * continues after a crash, and after half an hour, once each account of a real partner had an order. It also orders the
 * trees that this one does not find: locked ones, those that commit behind the last registration of an order, and those of
 * accounts that have their first ones meanwhile.
 *
 * Simulated orders are created after all others, within the half hour, and are bounded. Accounts that have had none come
 * first, then those whose last one is the oldest.
 * @param intervalMs the time between two runs, which bounds simulated orders
 * @returns the number of orders
 */
export const createPlantingOrders = async (
  { db, clock, planting }: PlantingContext,
  signal: AbortSignal,
  {
    intervalMs = Number.POSITIVE_INFINITY,
    registrationsPerOrder = REGISTRATIONS_PER_ORDER,
  }: { readonly intervalMs?: number; readonly registrationsPerOrder?: number } = {},
): Promise<number> => {
  const createOrder = ({ account: { accountId, mode, name }, after }: NextOrder) => {
    const partner = planting.partnerFor(mode);
    return db.transaction((transaction) =>
      insertPlantingOrder(
        transaction,
        {
          publicId: `po_${newId().replaceAll("-", "")}`,
          accountId,
          mode,
          partner: partner.kind,
          partnerName: partner.name,
          buyerName: name,
          timeline: partner.timeline,
          createdAt: clock.now(),
        },
        { after, limit: registrationsPerOrder },
      ),
    );
  };
  let orders = 0;
  /** Creates an order for each account. Returns the accounts that may have more trees. */
  const createOrderForEach = async (
    accounts: readonly NextOrder[],
  ): Promise<readonly NextOrder[]> => {
    const next: NextOrder[] = [];
    for (const nextOrder of accounts) {
      signal.throwIfAborted();
      const created = await createOrder(nextOrder);
      orders += created ? 1 : 0;
      if (created?.registrations === registrationsPerOrder) {
        next.push({ account: nextOrder.account, after: created.lastRegistrationId });
      }
    }
    return next;
  };

  const endMs = clock.now().getTime() + MAXIMUM_RUN_MS;
  const isOver = (): boolean => clock.now().getTime() >= endMs;
  const createFurtherOrders = async (accounts: readonly NextOrder[]): Promise<void> => {
    let remaining = accounts;
    while (remaining.length > 0 && !isOver()) {
      remaining = await createOrderForEach(remaining);
    }
  };
  const createFirstOrders = (accounts: readonly Account[]): Promise<readonly NextOrder[]> =>
    createOrderForEach(accounts.map((account) => ({ account, after: null })));
  const isSimulated = ({ mode }: Account): boolean =>
    planting.partnerFor(mode).kind === "simulated";
  const more: NextOrder[] = [];
  const simulated: Account[] = [];
  let page: readonly Account[] = [];
  do {
    page = await listAccountsWithUnorderedTrees(db, page.at(-1) ?? null, ACCOUNTS_PER_PAGE);
    more.push(...(await createFirstOrders(page.filter((account) => !isSimulated(account)))));
    simulated.push(...page.filter(isSimulated));
  } while (page.length === ACCOUNTS_PER_PAGE);
  await createFurtherOrders(more);
  const moreSimulated: NextOrder[] = [];
  const first = simulated
    .toSorted((left, right) => (left.lastOrderId ?? 0) - (right.lastOrderId ?? 0))
    .slice(0, (SIMULATED_ORDERS_PER_SECOND * intervalMs) / 1000);
  for (const account of first) {
    // A real partner's interval is a day, so it permits more orders than fit into a run.
    if (isOver()) {
      break;
    }
    moreSimulated.push(...(await createFirstOrders([account])));
  }
  await createFurtherOrders(moreSimulated);
  return orders;
};
