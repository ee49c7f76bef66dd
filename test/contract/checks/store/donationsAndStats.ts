import { z } from "zod";
import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service, StoreKey } from "../../client.ts";
import {
  expectBody,
  expectEqual,
  expectStatus,
  expectStoreError,
  expectThat,
} from "../../expectations.ts";
import { readStats, reverse, write } from "./storeRecords.ts";

const PATH = "/app/api/charity/donate";
const CHARITY = "53-0196605";

const donated = z.looseObject({
  status: z.string().min(1),
  charity_id: z.string(),
  amount: z.number(),
  mode: z.enum(["PROD", "TEST"]),
});

const post = (
  service: Service,
  body: Readonly<Record<string, unknown>>,
  key: StoreKey = "test",
): Promise<Answer> => service.store(key).post(PATH, { charity_id: CHARITY, ...body });

const donations = checksOf(`POST ${PATH}`);
const stats = checksOf("GET /app/api/impact/stats");

export const storeDonationChecks: readonly Check[] = [
  donations.contract("returns the charity, the amount and the mode", async (service) => {
    const body = { amount_dollars: 2.5, customer_name: "Ann", order_id: "#1" };
    const answer = expectBody(await post(service, body), donated);
    expectEqual("charity_id", answer.charity_id, CHARITY);
    expectEqual("amount", answer.amount, 2.5);
    expectEqual("mode", answer.mode, "TEST");
  }),
  donations.contract("amount and donation_amount mean amount_dollars", async (service) => {
    for (const name of ["amount_dollars", "amount", "donation_amount"]) {
      const customer = unique("alias");
      expectEqual(
        "amount",
        expectBody(await post(service, { [name]: 3, customer_name: customer }), donated).amount,
        3,
      );
      expectEqual(
        "donations",
        (await readStats(service, { customer_name: customer })).donations,
        3,
      );
    }
  }),
  donations.contract(
    "an amount that is not a number above 0 is a 400 INVALID_PARAMETER",
    async (service) => {
      for (const amount of [0, -1, -0.01, "x", "", true, null, [], {}]) {
        expectStoreError(await post(service, { amount_dollars: amount }), 400, "INVALID_PARAMETER");
      }
      expectStoreError(await post(service, {}), 400, "INVALID_PARAMETER");
    },
  ),
  donations.contract("a missing or unknown charity is a 400 INVALID_PARAMETER", async (service) => {
    for (const charity of [undefined, null, "", unique("none"), "00-0000000", true, {}]) {
      const answer = await post(service, { charity_id: charity, amount_dollars: 1 });
      expectStoreError(answer, 400, "INVALID_PARAMETER");
    }
  }),
  donations.contract(
    "a body that is not a JSON object is a 400 INVALID_PARAMETER",
    async (service) => {
      for (const body of ["{", "[]", "null", ""]) {
        expectStoreError(await service.store().post(PATH, body), 400, "INVALID_PARAMETER");
      }
    },
  ),
  donations.contract("cents are exact", async (service) => {
    const customer = unique("cents");
    for (const amount of [0.1, 0.2, 0.01, 19.99]) {
      expectEqual(
        "amount",
        expectBody(
          await post(service, { amount_dollars: amount, customer_name: customer }),
          donated,
        ).amount,
        amount,
      );
    }
    expectEqual(
      "donations",
      (await readStats(service, { customer_name: customer })).donations,
      20.3,
    );
  }),
  donations.decision(
    "60 donations at once are all recorded, and invalid ones are no 429 either",
    async (service) => {
      const customer = unique("burst");
      const answers = await atOnce(60, () =>
        post(service, { amount_dollars: 1, customer_name: customer }),
      );
      for (const answer of answers) {
        expectStatus(answer, 200);
      }
      expectEqual(
        "donations",
        (await readStats(service, { customer_name: customer })).donations,
        60,
      );
      for (const answer of await atOnce(40, () => post(service, { amount_dollars: -1 }))) {
        expectStoreError(answer, 400, "INVALID_PARAMETER");
      }
    },
  ),
  donations.decision("an amount has at most $999,999,999.99", async (service) => {
    const customer = unique("maximum");
    expectStatus(
      await post(service, { amount_dollars: 999_999_999.99, customer_name: customer }),
      200,
    );
    expectStatus(
      await reverse(service, { type: "donation", quantity: 1, customer_name: customer }),
      200,
    );
    for (const amount of [1e9, 1e15, 1e300]) {
      expectStoreError(await post(service, { amount_dollars: amount }), 400, "INVALID_PARAMETER");
    }
  }),
  donations.decision("unknown fields and null are ignored", async (service) => {
    const body = { amount_dollars: 1, foo: 1, customer_name: null, order_id: null };
    expectStatus(
      await service.store().post(`${PATH}?foo=1`, { charity_id: CHARITY, ...body }),
      200,
    );
  }),
  donations.decision(
    "the charity may be named by its digits, also as a number",
    async (service) => {
      for (const charity of ["530196605", 530_196_605]) {
        expectStatus(await post(service, { charity_id: charity, amount_dollars: 1 }), 200);
      }
    },
  ),
];

export const statsChecks: readonly Check[] = [
  stats.contract("without a filter the totals cover the store", async (service) => {
    const before = await readStats(service);
    expectEqual("customer_scoped", before.customer_scoped, false);
    await write(service, "tree", { trees: 4 });
    await write(service, "bottle", { bottles: 5 });
    expectStatus(await post(service, { amount_dollars: 1.25 }), 200);
    const after = await readStats(service);
    expectEqual("trees", after.trees, before.trees + 4);
    expectEqual("plastic_bottles", after.plastic_bottles, before.plastic_bottles + 5);
    expectEqual(
      "donations in cents",
      Math.round(after.donations * 100),
      Math.round(before.donations * 100) + 125,
    );
    expectThat(after.co2_kg >= before.co2_kg, "co2_kg does not fall", [
      before.co2_kg,
      after.co2_kg,
    ]);
  }),
  stats.contract("with a filter they cover the customer", async (service) => {
    const name = unique("Customer");
    await write(service, "tree", { trees: 4, customer_name: name });
    await write(service, "bottle", { bottles: 5, customer_name: name });
    expectStatus(await post(service, { amount_dollars: 1.5, customer_name: name }), 200);
    for (const filter of [
      { customer_name: name },
      { customer_name: name.toLowerCase().slice(1) },
      { customer: name },
    ]) {
      const {
        trees,
        plastic_bottles: bottles,
        donations: dollars,
        customer_scoped: scoped,
      } = await readStats(service, filter);
      expectEqual(
        `stats with ${JSON.stringify(filter)}`,
        { trees, bottles, dollars, scoped },
        { trees: 4, bottles: 5, dollars: 1.5, scoped: true },
      );
    }
  }),
  stats.contract("a customer without records has nothing", async (service) => {
    for (const parameter of [
      "customer_name",
      "customer_email",
      "email",
      "customer_id",
      "customer",
    ]) {
      const {
        trees,
        plastic_bottles: bottles,
        donations: dollars,
        co2_kg: kg,
        customer_scoped: scoped,
      } = await readStats(service, { [parameter]: unique("none") });
      expectEqual(
        `stats with ${parameter}`,
        { trees, bottles, dollars, kg, scoped },
        { trees: 0, bottles: 0, dollars: 0, kg: 0, scoped: true },
      );
    }
  }),
  stats.decision("customers are also found by email address and id", async (service) => {
    const id = unique("c");
    const email = `${id}@example.com`;
    await write(service, "tree", { trees: 2, customer_email: email, customer_id: id });
    for (const filter of [
      { customer_email: email.toUpperCase() },
      { email },
      { customer_id: id },
      { customer: email },
    ]) {
      expectEqual(
        `trees with ${JSON.stringify(filter)}`,
        (await readStats(service, filter)).trees,
        2,
      );
    }
  }),
  stats.decision("100 overlapping requests are all answered", async (service) => {
    const answers = await atOnce(100, () => service.store().get("/app/api/impact/stats"));
    expectEqual("statuses", countStatuses(answers), { 200: 100 });
  }),
  stats.decision("unknown parameters are ignored", async (service) => {
    expectEqual(
      "customer_scoped",
      (await readStats(service, { foo: "1", limit: "0", start_date: "x" })).customer_scoped,
      false,
    );
  }),
];
