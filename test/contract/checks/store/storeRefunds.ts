import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import {
  expectEqual,
  expectFields,
  expectStatus,
  NO_OBJECTS,
  storeRejects,
} from "../../expectations.ts";
import { readReversed, readStats, reverse, STORE_KINDS, write } from "./storeRecords.ts";

const PATH = "/app/api/refund";
const { contract, decision } = checksOf(`POST ${PATH}`);

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
  decision("more units than there are is a 400, and nothing changes", async (service) => {
    const customer = unique("over");
    await write(service, "tree", { trees: 3, customer_name: customer });
    const trees = (quantity: number) => ({ type: "tree", quantity, customer_name: customer });
    const bodies = [4, 3_000_000_000, Number.MAX_SAFE_INTEGER].map(trees);
    await storeRejects(PATH, { bodies })(service);
    expectEqual("trees", (await readStats(service, { customer_name: customer })).trees, 3);
    readReversed(await reverse(service, trees(3)));
    await storeRejects(PATH, { bodies: [trees(1)] })(service);
  }),
  decision("a refund may span several records", async (service) => {
    const customer = unique("span");
    await atOnce(4, () => write(service, "bottle", { bottles: 2, customer_name: customer }));
    readReversed(await reverse(service, { type: "plastic", quantity: 7, customer_name: customer }));
    expectFields(await readStats(service, { customer_name: customer }), { plastic_bottles: 1 });
  }),
  decision("ten overlapping refunds take back no more than there is", async (service) => {
    const customer = unique("race");
    await write(service, "tree", { trees: 5, customer_name: customer });
    const answers = await atOnce(10, () =>
      reverse(service, { type: "tree", quantity: 1, customer_name: customer }),
    );
    expectEqual("statuses", countStatuses(answers), { 200: 5, 400: 5 });
    expectEqual("trees", (await readStats(service, { customer_name: customer })).trees, 0);
  }),
  decision(
    "unknown fields, notes and null are ignored; a reason has up to 10,000 characters",
    async (service) => {
      const customer = unique("lenient");
      await write(service, "tree", { trees: 2, customer_name: customer });
      const body = { type: "tree", quantity: 1, customer_name: customer };
      readReversed(
        await reverse(service, { ...body, notes: "x", foo: 1, metadata: {}, reason: null }),
      );
      readReversed(
        await service
          .store()
          .post(`${PATH}?foo=1&quantity=9`, { ...body, reason: "r".repeat(10_000) }),
      );
    },
  ),
];
