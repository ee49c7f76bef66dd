import { z } from "zod";
import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Answer, Service } from "../../client.ts";
import { expect, NO_OBJECTS, storeRejects } from "../../expectations.ts";
import { storeOf, storeRecordsOf } from "./storeRecords.ts";

const PATH = "/app/api/charity/donate";
const CHARITY = "53-0196605";

const donated = z.looseObject({
  status: z.string().min(1),
  charity_id: z.string(),
  amount: z.number(),
  mode: z.enum(["PROD", "TEST"]),
});

const storeScene = (service: Service) => ({
  ...storeOf(service),
  plant: storeRecordsOf("tree")(service).write,
  rescue: storeRecordsOf("bottle")(service).write,
  post: (body: Readonly<Record<string, unknown>>): Promise<Answer> =>
    service.store().post(PATH, { charity_id: CHARITY, ...body }),
});

const amounts = (...given: readonly unknown[]) => ({
  bodies: given.map((amount) => ({ charity_id: CHARITY, amount_dollars: amount })),
});

const donations = checksOf(`POST ${PATH}`, storeScene);
const stats = checksOf("GET /app/api/impact/stats", storeScene);

export const storeDonationChecks: readonly Check[] = [
  donations.contract("returns the charity, the amount and the mode", async (t) => {
    const body = { amount_dollars: 2.5, customer_name: "Ann", order_id: "#1" };
    const answer = expect.body(await t.post(body), donated);
    expect.fields(answer, { charity_id: CHARITY, amount: 2.5, mode: "TEST" });
  }),
  donations.contract("amount and donation_amount mean amount_dollars", async (t) => {
    for (const name of ["amount_dollars", "amount", "donation_amount"]) {
      const customer = { customer_name: unique("alias") };
      const answer = await t.post({ [name]: 3, ...customer });
      expect.equal("amount", expect.body(answer, donated).amount, 3);
      expect.fields(await t.readStats(customer), { donations: 3 });
    }
  }),
  donations.contract(
    "an amount that is not a number above 0 is a 400 INVALID_PARAMETER",
    storeRejects(PATH, amounts(undefined, 0, -1, -0.01, "x", "", true, null, [], {})),
  ),
  donations.contract(
    "a missing or unknown charity is a 400 INVALID_PARAMETER",
    storeRejects(PATH, {
      bodies: [undefined, null, "", unique("none"), "00-0000000", true, {}].map((charity) => ({
        charity_id: charity,
        amount_dollars: 1,
      })),
    }),
  ),
  donations.contract(
    "a body that is not a JSON object is a 400 INVALID_PARAMETER",
    storeRejects(PATH, { bodies: NO_OBJECTS }),
  ),
  donations.contract("cents are exact", async (t) => {
    const customer = { customer_name: unique("cents") };
    for (const amount of [0.1, 0.2, 0.01, 19.99]) {
      const answer = await t.post({ amount_dollars: amount, ...customer });
      expect.equal("amount", expect.body(answer, donated).amount, amount);
    }
    expect.fields(await t.readStats(customer), { donations: 20.3 });
  }),
  donations.decision("60 donations at once are recorded, invalid ones are no 429", async (t) => {
    const customer = { customer_name: unique("burst") };
    const donate = (amount: number) => t.post({ amount_dollars: amount, ...customer });
    expect.equal("statuses", countStatuses(await atOnce(60, () => donate(1))), { 200: 60 });
    expect.fields(await t.readStats(customer), { donations: 60 });
    expect.equal("statuses", countStatuses(await atOnce(40, () => donate(-1))), { 400: 40 });
  }),
  donations.decision("an amount has at most $999,999,999.99", async (t) => {
    const customer = { customer_name: unique("maximum") };
    expect.status(await t.post({ amount_dollars: 999_999_999.99, ...customer }), 200);
    expect.status(await t.reverse({ type: "donation", quantity: 1, ...customer }), 200);
    await storeRejects(PATH, amounts(1e9, 1e15, 1e300))(t);
  }),
];

export const statsChecks: readonly Check[] = [
  stats.contract("without a filter the totals cover the store", async (t) => {
    const before = await t.readStats();
    expect.equal("customer_scoped", before.customer_scoped, false);
    await t.plant({ trees: 4 });
    await t.rescue({ bottles: 5 });
    expect.status(await t.post({ amount_dollars: 1.25 }), 200);
    const after = await t.readStats();
    expect.fields(after, { trees: before.trees + 4, plastic_bottles: before.plastic_bottles + 5 });
    const cents = [before, after].map(({ donations: dollars }) => Math.round(dollars * 100));
    expect.equal("donations in cents", cents[1], (cents[0] ?? 0) + 125);
    const weights = [before.co2_kg, after.co2_kg];
    expect.that(after.co2_kg >= before.co2_kg, "co2_kg does not fall", weights);
  }),
  stats.contract("with a filter they cover the customer", async (t) => {
    const name = unique("Customer");
    await t.plant({ trees: 4, customer_name: name });
    await t.rescue({ bottles: 5, customer_name: name });
    expect.status(await t.post({ amount_dollars: 1.5, customer_name: name }), 200);
    for (const filter of [
      { customer_name: name },
      { customer_name: name.toLowerCase().slice(1) },
      { customer: name },
    ]) {
      const units = { trees: 4, plastic_bottles: 5, donations: 1.5 };
      const found = await t.readStats(filter);
      expect.fields(found, { ...units, customer_scoped: true }, filter);
    }
  }),
  stats.contract("a customer without records has nothing", async (t) => {
    const nothing = { trees: 0, plastic_bottles: 0, donations: 0, co2_kg: 0 };
    for (const name of ["customer_name", "customer_email", "email", "customer_id", "customer"]) {
      const filter = { [name]: unique("none") };
      const found = await t.readStats(filter);
      expect.fields(found, { ...nothing, customer_scoped: true }, filter);
    }
  }),
];
