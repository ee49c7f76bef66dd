import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expectEqual, expectStatus, expectStoreError } from "../../expectations.ts";
import { readReversed, readStats, reverse, STORE_KINDS } from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";

const buy = (service: Service, kind: StoreKind, units: number, customer: string): Promise<Answer> =>
  service
    .store("prod")
    .post(STORE_KINDS[kind].path, { [STORE_KINDS[kind].field]: units, customer_name: customer });

/** Spends the balance on units until it does not cover one more. Returns the units. */
const exhaust = async (service: Service, kind: StoreKind, customer: string): Promise<number> => {
  let bought = 0;
  for (let units = 2 ** 30; units >= 1; units /= 2) {
    const answer = await buy(service, kind, units, customer);
    expectStatus(answer, 200, 402);
    if (answer.status === 402) {
      expectStoreError(answer, 402, "INSUFFICIENT_BUDGET");
    } else {
      bought += units;
    }
  }
  return bought;
};

const giveBack = async (
  service: Service,
  kind: StoreKind,
  units: number,
  customer: string,
): Promise<void> => {
  const body = { type: STORE_KINDS[kind].refundType, quantity: units, customer_name: customer };
  expectEqual("mode", readReversed(await reverse(service, body, "prod")).mode, "PROD");
};

const kindChecks = (kind: StoreKind): Check => {
  const { contract } = checksOf(`POST ${STORE_KINDS[kind].path}`);
  return contract(
    "an exhausted balance is a 402 INSUFFICIENT_BUDGET, and a refund restores it",
    async (service) => {
      const customer = unique("budget");
      const bought = await exhaust(service, kind, customer);
      try {
        expectStoreError(await buy(service, kind, 1, customer), 402, "INSUFFICIENT_BUDGET");
        await giveBack(service, kind, 1, customer);
        expectStatus(await buy(service, kind, 1, customer), 200);
        expectStoreError(await buy(service, kind, 1, customer), 402, "INSUFFICIENT_BUDGET");
        const stats = await readStats(service, { customer_name: customer }, "prod");
        expectEqual(STORE_KINDS[kind].stat, stats[STORE_KINDS[kind].stat], bought);
      } finally {
        await giveBack(service, kind, bought, customer);
      }
      const stats = await readStats(service, { customer_name: customer }, "prod");
      expectEqual(STORE_KINDS[kind].stat, stats[STORE_KINDS[kind].stat], 0);
    },
  );
};

const { contract } = checksOf("Balance");

export const budgetChecks: readonly Check[] = [
  contract("overlapping writes never spend more than the balance", async (service) => {
    const customer = unique("race");
    let bought = await exhaust(service, "tree", customer);
    try {
      const restored = Math.min(bought, 5);
      await giveBack(service, "tree", restored, customer);
      bought -= restored;
      const answers = await atOnce(20, () => buy(service, "tree", 1, customer));
      bought += restored;
      expectEqual("statuses", countStatuses(answers), { 200: restored, 402: 20 - restored });
    } finally {
      await giveBack(service, "tree", bought, customer);
    }
  }),
  kindChecks("tree"),
  kindChecks("bottle"),
  contract(
    "a donation that the balance does not cover is a 402 INSUFFICIENT_BUDGET",
    async (service) => {
      const body = { charity_id: "53-0196605", amount_dollars: 900_000_000 };
      expectStoreError(
        await service.store("prod").post("/app/api/charity/donate", body),
        402,
        "INSUFFICIENT_BUDGET",
      );
    },
  ),
];
