import type { Mode } from "../records/owner.rules.ts";
import { MODES } from "../records/owner.rules.ts";
import {
  closeNextOrder,
  insertPlantingOrder,
  listNextOrders,
  lockNextOrder,
} from "./nextOrders.sql.ts";
import type { NextOrder } from "./nextOrders.sql.ts";
import { isSimulated } from "./order.rules.ts";
import { newId } from "../../runtime/newId.ts";
import type { PlantingContext } from "./context.ts";

/** The workflows of the created orders start after a run. Simulated orders that remain then are for the next run. */
const MAXIMUM_RUN_MS = 30 * 60 * 1000;

/** Simulated orders plant nothing, so they must not take the machine from what clients do. */
const SIMULATED_ORDERS_PER_SECOND = 1;

/**
 * Creates a planting order of each account's registered trees that are in no order and not refunded. No tree is ever in two
 * orders, and the next call continues after a crash.
 *
 * Simulated orders are created after all others, within half an hour, and are bounded. Those of accounts that have none come
 * first, then those whose trees have waited the longest.
 * @param intervalMs the time between two runs, which bounds simulated orders
 * @returns the number of orders
 */
export const createPlantingOrders = async (
  { db, clock, planting }: PlantingContext,
  signal: AbortSignal,
  { intervalMs = null }: { readonly intervalMs?: number | null } = {},
): Promise<number> => {
  const createOrder = async ({ id, accountId, mode, buyerName }: NextOrder): Promise<boolean> => {
    const partner = planting.partnerFor(mode);
    await closeNextOrder(db, id);
    return db.transaction(
      async (transaction) =>
        (await lockNextOrder(transaction, id)) &&
        insertPlantingOrder(transaction, {
          id,
          publicId: `po_${newId().replaceAll("-", "")}`,
          accountId,
          mode,
          partner: partner.kind,
          partnerName: partner.name,
          buyerName,
          timeline: partner.timeline,
          createdAt: clock.now(),
        }),
    );
  };
  const createOrders = async (
    next: readonly NextOrder[],
    endMs: number | null,
  ): Promise<number> => {
    let created = 0;
    for (const order of next) {
      signal.throwIfAborted();
      if (endMs !== null && clock.now().getTime() >= endMs) {
        break;
      }
      created += (await createOrder(order)) ? 1 : 0;
    }
    return created;
  };

  const endMs = clock.now().getTime() + MAXIMUM_RUN_MS;
  const maximum =
    intervalMs === null ? null : Math.floor((SIMULATED_ORDERS_PER_SECOND * intervalMs) / 1000);
  const simulates = (mode: Mode): boolean => isSimulated(planting.partnerFor(mode).kind);
  const real = MODES.filter((mode) => !simulates(mode));
  const created = await createOrders(await listNextOrders(db, real, null), null);
  const simulated = await listNextOrders(db, MODES.filter(simulates), maximum);
  return created + (await createOrders(simulated, endMs));
};
