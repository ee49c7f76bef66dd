import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";
import { REGISTER_OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import { createStoreWriter } from "../../modules/stores/createStoreWriter.ts";
import { donateFromStore } from "../../modules/stores/donateFromStore.ts";
import type { StoreOperation } from "../../modules/stores/stores.rules.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { CHARITIES, createContext } from "./history.ts";
import type { History } from "./history.ts";

const CUSTOMERS = ["Ida Holm", "Lars Berg", "Mette Lund", "Jonas Dahl", "Freja Krogh"];

/** Returns the writes of the store. */
const createStoreWrites = (history: History, accountId: string) => {
  const storeWriter = createStoreWriter(history);
  const context = { ...createContext(history), storeWriter };
  const { pick } = chooseBySeed("customers");
  let orders = 2000;

  const writeOf = (operation: StoreOperation) =>
    ({ accountId, mode: "live", operation, idempotency: null, responseBody: "" }) as const;

  const nextOrder = () => {
    const customerName = pick(CUSTOMERS);
    orders += 1;
    return {
      customerName,
      customerEmail: `${customerName.toLowerCase().replace(" ", ".")}@example.com`,
      customerId: null,
      orderId: `#${orders}`,
      notes: null,
    };
  };

  const register = (order: ReturnType<typeof nextOrder>, kind: Kind, count: number) =>
    storeWriter.write({
      ...writeOf(REGISTER_OPERATIONS[kind]),
      ...order,
      recordId: newId(),
      kind,
      count,
      isLimited: false,
    });

  const giveDonation = () =>
    donateFromStore(context, writeOf("donate"), {
      ...nextOrder(),
      charityId: pick(CHARITIES),
      amountCents: pick([100, 200, 500, 1000]),
    });

  const refund = (quantity: number) =>
    storeWriter.write({
      ...writeOf("refund"),
      recordId: null,
      refunded: "tree",
      quantity,
      filter: {},
      reason: "order returned",
    });

  const topUp = (reference: string) =>
    changeBalance(context, {
      kind: "topup",
      storeId: accountId,
      amountCents: 10_000,
      reference,
      note: "",
    });

  return { nextOrder, register, giveDonation, refund, topUp };
};

/** Plans the year of the store, which pays once a month. @returns the orders that have trees and plastic */
export const planStore = (
  history: History,
  accountId: string,
  midnights: readonly Date[],
): readonly string[] => {
  const { plan } = history;
  const { nextOrder, register, giveDonation, refund, topUp } = createStoreWrites(
    history,
    accountId,
  );
  const { between } = chooseBySeed("store");
  const shown: string[] = [];
  for (const [day, midnight] of midnights.entries()) {
    const timeOf = (hours: number): Date => new Date(midnight.getTime() + hours * HOUR_MS);
    if (day % 30 === 0) {
      plan(midnight, () => topUp(`invoice-${midnight.toISOString().slice(0, 10)}`));
    }
    for (let index = between(0, 2); index > 0; index -= 1) {
      plan(timeOf(between(7, 13) + index), async () => {
        const order = nextOrder();
        await register(order, "tree", between(1, 5));
        if (between(1, 3) === 1) {
          await register(order, "bottle", between(2, 12));
          shown.push(order.orderId);
        }
      });
    }
    if (day % 12 === 5) {
      plan(timeOf(18), giveDonation);
    }
    if (day % 35 === 34) {
      plan(timeOf(20), () => refund(between(1, 3)));
    }
  }
  return shown;
};
