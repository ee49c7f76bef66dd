import { checksOf, unique } from "../../check.ts";
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
