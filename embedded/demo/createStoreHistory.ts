import type { DatabasePool } from "slonik";
import { SERVICE } from "../../domain/accounts/audit.ts";
import type { CustomerDetails } from "../../domain/stores/customers.ts";
import { REGISTER_OPERATIONS } from "../../domain/stores/stores.ts";
import type { StoreOperation } from "../../domain/stores/stores.ts";
import type { StoreWrite } from "../../domain/stores/storeWrites.ts";
import { createAccountQueue } from "../../services/batching/createAccountQueue.ts";
import { changeBalance } from "../../services/stores/balance/changeBalance.ts";
import { createStoreRegistrationWriter } from "../../services/stores/records/createStoreRegistrationWriter.ts";
import { donateFromStore } from "../../services/stores/records/donateFromStore.ts";
import { reverseStoreRegistrations } from "../../services/stores/records/reverseStoreRegistrations.ts";
import { createDemoCharities } from "./createDemoCharities.ts";
import type { HistoryClock } from "./historyClock.ts";
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
  const context = {
    db,
    clock,
    actor: SERVICE,
    writeQueue: createAccountQueue(),
    ...createDemoCharities(db, clock),
  };
  const writer = createStoreRegistrationWriter(context);
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
        await writer.register({
          ...writeOf(REGISTER_OPERATIONS[step.unit]),
          ...customerOf(step),
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
        await reverseStoreRegistrations(context, writeOf("refund"), {
          kind: "tree",
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
