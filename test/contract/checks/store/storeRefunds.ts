import { checksOf, unique, atOnce, countStatuses } from "../../check.ts";
import type { Check } from "../../check.ts";
import {
  expectEqual,
  expectFields,
  expectStatus,
  NO_OBJECTS,
  storeRejects,
  expectStoreError,
} from "../../expectations.ts";
import { readReversed, readStats, reverse, STORE_KINDS, write } from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";
import type { Answer, Service } from "../../client.ts";

const PATH = "/app/api/refund";
const { contract } = checksOf(`POST ${PATH}`);

export const storeRefundChecks: readonly Check[] = [
  ...(["tree", "bottle"] as const).map((kind) => {
    const { refundType, stat, field } = STORE_KINDS[kind];
    return contract(`reverses units of the type ${refundType}`, async (service) => {
      const customer = unique("refund");
      await write(service, kind, { [field]: 5, customer_name: customer });
      const body = { type: refundType, quantity: 2, customer_name: customer, reason: "cancelled" };
      const reversed = readReversed(await reverse(service, body));
      expectFields(reversed, { mode: "TEST", refunded_type: refundType, count: 2 });
      expectEqual(stat, (await readStats(service, { customer_name: customer }))[stat], 3);
    });
  }),
  contract("reverses a donation", async (service) => {
    const customer = unique("refund");
    const body = { charity_id: "53-0196605", amount_dollars: 2, customer_name: customer };
    expectStatus(await service.store().post("/app/api/charity/donate", body), 200);
    const reversed = readReversed(
      await reverse(service, { type: "donation", quantity: 1, customer_name: customer }),
    );
    expectFields(reversed, { refunded_type: "donation", count: 1 });
    expectEqual("donations", (await readStats(service, { customer_name: customer })).donations, 0);
  }),
  contract("without a customer it reverses units of the store", async (service) => {
    await write(service, "tree", { trees: 3 });
    const before = await readStats(service);
    readReversed(await reverse(service, { type: "tree", quantity: 3 }));
    expectEqual("trees", (await readStats(service)).trees, before.trees - 3);
  }),
  contract(
    "an unknown type is a 400 INVALID_PARAMETER",
    storeRejects(PATH, {
      bodies: ["bottle", "trees", "TREE", "", 1, null, undefined, {}].map((type) => ({
        type,
        quantity: 1,
      })),
    }),
  ),
  contract(
    "a quantity that is not an integer of at least 1 is a 400 INVALID_PARAMETER",
    async (service) => {
      await write(service, "tree", { trees: 3 });
      const before = await readStats(service);
      const wrong = [0, -1, 1.5, "1", "", true, null, undefined, [], {}];
      const bodies = wrong.map((quantity) => ({ type: "tree", quantity }));
      await storeRejects(PATH, { bodies })(service);
      expectEqual("trees", (await readStats(service)).trees, before.trees);
    },
  ),
  contract(
    "a body that is not a JSON object is a 400 INVALID_PARAMETER",
    storeRejects(PATH, { bodies: NO_OBJECTS }),
  ),
];

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
  return checksOf(`POST ${STORE_KINDS[kind].path}`).contract(
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

const balance = checksOf("Balance");

export const budgetChecks: readonly Check[] = [
  balance.contract("overlapping writes never spend more than the balance", async (service) => {
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
  balance.contract(
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
