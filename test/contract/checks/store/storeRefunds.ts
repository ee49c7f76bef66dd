import { checksOf, unique, atOnce, countStatuses } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_OBJECTS, storeRejects } from "../../expectations.ts";
import { readReversed, STORE_KINDS, storeOf, storeRecordsOf } from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";
import type { Answer, Service } from "../../client.ts";

const PATH = "/app/api/refund";
const { contract } = checksOf(`POST ${PATH}`, (service) => ({
  ...storeOf(service),
  plant: storeRecordsOf("tree")(service).write,
}));

export const storeRefundChecks: readonly Check[] = [
  ...(["tree", "bottle"] as const).map((kind) => {
    const { refundType, stat, field } = STORE_KINDS[kind];
    return contract(`reverses units of the type ${refundType}`, async (t) => {
      const customer = unique("refund");
      await storeRecordsOf(kind)(t.service).write({ [field]: 5, customer_name: customer });
      const body = { type: refundType, quantity: 2, customer_name: customer, reason: "cancelled" };
      const reversed = readReversed(await t.reverse(body));
      expect.fields(reversed, { mode: "TEST", refunded_type: refundType, count: 2 });
      expect.equal(stat, (await t.readStats({ customer_name: customer }))[stat], 3);
    });
  }),
  contract("reverses a donation", async (t) => {
    const customer = unique("refund");
    const body = { charity_id: "53-0196605", amount_dollars: 2, customer_name: customer };
    expect.status(await t.service.store().post("/app/api/charity/donate", body), 200);
    const given = { type: "donation", quantity: 1, customer_name: customer };
    const reversed = readReversed(await t.reverse(given));
    expect.fields(reversed, { refunded_type: "donation", count: 1 });
    expect.equal("donations", (await t.readStats({ customer_name: customer })).donations, 0);
  }),
  contract("without a customer it reverses units of the store", async (t) => {
    await t.plant({ trees: 3 });
    const before = await t.readStats();
    readReversed(await t.reverse({ type: "tree", quantity: 3 }));
    expect.equal("trees", (await t.readStats()).trees, before.trees - 3);
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
  contract("a quantity that is no positive integer is a 400 INVALID_PARAMETER", async (t) => {
    await t.plant({ trees: 3 });
    const before = await t.readStats();
    const wrong = [0, -1, 1.5, "1", "", true, null, undefined, [], {}];
    const bodies = wrong.map((quantity) => ({ type: "tree", quantity }));
    await storeRejects(PATH, { bodies })(t);
    expect.equal("trees", (await t.readStats()).trees, before.trees);
  }),
  contract(
    "a body that is not a JSON object is a 400 INVALID_PARAMETER",
    storeRejects(PATH, { bodies: NO_OBJECTS }),
  ),
];

const expectExhausted = (answer: Answer) => expect.storeError(answer, 402, "INSUFFICIENT_BUDGET");

/** Returns the purchases of a kind with the production key. */
const purchasesOf = (kind: StoreKind) => (service: Service) => {
  const { path, field, refundType } = STORE_KINDS[kind];
  const { readStats, reverse } = storeOf(service);
  const buy = (units: number, customer: string): Promise<Answer> =>
    service.store("prod").post(path, { [field]: units, customer_name: customer });
  return {
    buy,
    /** Spends the balance on units until it does not cover one more. Returns the units. */
    exhaust: async (customer: string): Promise<number> => {
      let bought = 0;
      for (let units = 2 ** 30; units >= 1; units /= 2) {
        const answer = await buy(units, customer);
        expect.status(answer, 200, 402);
        if (answer.status === 402) {
          expectExhausted(answer);
        } else {
          bought += units;
        }
      }
      return bought;
    },
    giveBack: async (units: number, customer: string): Promise<void> => {
      const body = { type: refundType, quantity: units, customer_name: customer };
      expect.equal("mode", readReversed(await reverse(body, "prod")).mode, "PROD");
    },
    readUnits: async (customer: string): Promise<number> =>
      (await readStats({ customer_name: customer }, "prod"))[STORE_KINDS[kind].stat],
  };
};

const kindChecks = (kind: StoreKind): Check =>
  checksOf(`POST ${STORE_KINDS[kind].path}`, purchasesOf(kind)).contract(
    "an exhausted balance is a 402 INSUFFICIENT_BUDGET, and a refund restores it",
    async (t) => {
      const customer = unique("budget");
      const bought = await t.exhaust(customer);
      try {
        expectExhausted(await t.buy(1, customer));
        await t.giveBack(1, customer);
        expect.status(await t.buy(1, customer), 200);
        expectExhausted(await t.buy(1, customer));
        expect.equal("units", await t.readUnits(customer), bought);
      } finally {
        await t.giveBack(bought, customer);
      }
      expect.equal("units", await t.readUnits(customer), 0);
    },
  );

const balance = checksOf("Balance", purchasesOf("tree"));

export const budgetChecks: readonly Check[] = [
  balance.contract("overlapping writes never spend more than the balance", async (t) => {
    const customer = unique("race");
    let bought = await t.exhaust(customer);
    try {
      const restored = Math.min(bought, 5);
      await t.giveBack(restored, customer);
      bought -= restored;
      const answers = await atOnce(20, () => t.buy(1, customer));
      bought += restored;
      expect.equal("statuses", countStatuses(answers), { 200: restored, 402: 20 - restored });
    } finally {
      await t.giveBack(bought, customer);
    }
  }),
  kindChecks("tree"),
  kindChecks("bottle"),
  balance.contract("a donation beyond the balance is a 402 INSUFFICIENT_BUDGET", async (t) => {
    const body = { charity_id: "53-0196605", amount_dollars: 900_000_000 };
    expectExhausted(await t.service.store("prod").post("/app/api/charity/donate", body));
  }),
];
