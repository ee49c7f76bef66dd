import type { DatabasePool } from "slonik";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { CustomerDetails } from "../../modules/stores/customers.rules.ts";
import { REGISTER_OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import type { StoreOperation } from "../../modules/stores/stores.rules.ts";
import type { StoreWrite } from "../../modules/stores/storeWrites.rules.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import { createStoreWriter } from "../../modules/stores/createStoreWriter.ts";
import { donateFromStore } from "../../modules/stores/donateFromStore.ts";
import { createDemoCharities } from "./historyContext.ts";
import type { HistoryClock } from "./historyContext.ts";
import { newId } from "../../runtime/newId.ts";
import type { StoreStep } from "./planDemo.ts";

const customerOf = ({
  customer,
  orderNumber,
}: {
  readonly customer: string;
  readonly orderNumber: number;
}): CustomerDetails => ({
  customerName: customer,
  customerEmail: `${customer.toLowerCase().replaceAll(" ", ".")}@example.com`,
  customerId: null,
  orderId: `#${orderNumber}`,
  notes: null,
});

/** Writes the planned history of a store. */
export const createStoreHistory = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: HistoryClock },
  accountId: string,
) => {
  const storeWriter = createStoreWriter({ db, clock });
  const context = { db, clock, actor: SERVICE, storeWriter, ...createDemoCharities(db, clock) };
  const writeOf = (operation: StoreOperation): StoreWrite => ({
    accountId,
    mode: "live",
    operation,
    idempotency: null,
    responseBody: "",
  });

  const run = async (step: StoreStep): Promise<void> => {
    switch (step.kind) {
      case "register":
        await storeWriter.write({
          ...writeOf(REGISTER_OPERATIONS[step.unit]),
          ...customerOf(step),
          recordId: newId(),
          kind: step.unit,
          count: step.count,
          isLimited: false,
        });
        return;
      case "donate":
        await donateFromStore(context, writeOf("donate"), {
          ...customerOf(step),
          charityId: step.ein,
          amountCents: step.amountCents,
        });
        return;
      case "refund":
        await storeWriter.write({
          ...writeOf("refund"),
          refunded: "tree",
          quantity: step.quantity,
          filter: {},
          reason: "order returned",
        });
        return;
      case "topup":
        await changeBalance(context, {
          kind: "topup",
          storeId: accountId,
          amountCents: step.amountCents,
          reference: `invoice-${step.at.toISOString().slice(0, 10)}`,
          note: "",
        });
    }
  };

  return {
    write: async (steps: readonly StoreStep[]): Promise<void> => {
      for (const step of steps) {
        clock.moveTo(step.at);
        await run(step);
      }
    },
  };
};
