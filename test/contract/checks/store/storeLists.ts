import { atOnce, checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_DATES, queriesOf, storeRejects } from "../../expectations.ts";
import { STORE_KINDS, storeRecordsOf } from "./storeRecords.ts";
import type { StoreKind } from "./storeRecords.ts";

const readAll = async (
  { listPage }: ReturnType<ReturnType<typeof storeRecordsOf>>,
  filter: Readonly<Record<string, string>>,
): Promise<readonly string[]> => {
  const ids: string[] = [];
  let cursor = "";
  for (let pages = 0; pages < 50; pages += 1) {
    const page = await listPage({ ...filter, ...(cursor && { after_created_at: cursor }) });
    ids.push(...page.records.map(({ id }) => id));
    if (!page.hasMore) {
      return ids;
    }
    cursor = page.nextCursor;
  }
  return ids;
};

export const storeListChecks = (kind: StoreKind): readonly Check[] => {
  const { path } = STORE_KINDS[kind];
  const { contract, decision } = checksOf(`GET ${path}`, storeRecordsOf(kind));

  return [
    contract("a page has 20 records by default, and says whether there are more", async (t) => {
      const customer = unique("default");
      await atOnce(21, () => t.write({ customer_name: customer }));
      const first = await t.listPage({ customer_name: customer });
      expect.equal("records", first.records.length, 20);
      expect.equal("has_more", first.hasMore, true);
      expect.that(first.nextCursor !== "", "next_cursor is given", first.nextCursor);
      const after = { after_created_at: first.nextCursor };
      const second = await t.listPage({ customer_name: customer, ...after });
      expect.equal("records", second.records.length, 1);
      expect.fields(second, { hasMore: false, nextCursor: "" });
    }),
    contract("an empty page has no more", async (t) => {
      const page = await t.listPage({ customer_name: unique("none") });
      expect.equal("page", page, { records: [], count: 0, hasMore: false, nextCursor: "" });
    }),
    // The contract does not show the maximum of plastic.
    (kind === "tree" ? contract : decision)("limit goes to 100", async (t) => {
      const customer = unique("limit");
      await atOnce(101, () => t.write({ customer_name: customer }));
      for (const [limit, count] of [
        [1, 1],
        [99, 99],
        [100, 100],
        [101, 100],
        [999_999_999_999, 100],
      ] as const) {
        await t.expectCount({ customer_name: customer, limit: String(limit) }, count);
      }
    }),
    contract("paging by next_cursor reads every record once", async (scene) => {
      const customer = unique("pages");
      await atOnce(45, () => scene.write({ customer_name: customer }));
      for (const limit of ["7", "15", "45"]) {
        const ids = await readAll(scene, { customer_name: customer, limit });
        expect.equal(`distinct records with limit ${limit}`, new Set(ids).size, 45);
        expect.equal(`records with limit ${limit}`, ids.length, 45);
      }
    }),
    contract(
      "a malformed cursor is a 400 INVALID_PARAMETER",
      storeRejects(path, {
        queries: queriesOf(["after_created_at"], ["x", "yesterday", "2026-13-01T00:00:00Z"]),
      }),
    ),
    contract("customer_name matches a part in any case, customer the name", async (t) => {
      const name = unique("Ann LEE");
      await t.write({ customer_name: name });
      await t.expectCount({ customer: name }, 1);
      for (const part of [name, name.toLowerCase(), name.toUpperCase(), name.slice(1, -1)]) {
        await t.expectCount({ customer_name: part }, 1);
      }
      await t.expectCount({ customer_name: name.replace("Ann", "A%n") }, 0);
      await t.expectCount({ customer_name: name.replace("Ann", "A_n") }, 0);
    }),
    contract("order_id matches with and without a leading #", async (t) => {
      const number = String(Math.floor(Math.random() * 1e12) + 1e12);
      await t.write({ order_id: `#${number}` });
      for (const orderId of [number, `#${number}`]) {
        await t.expectCount({ order_id: orderId }, 1);
      }
      await t.expectCount({ order_id: number.slice(0, -1) }, 0);
      await t.expectCount({ order_id: number.slice(1) }, 0);
    }),
    contract("start_date is inclusive, end_date is not", async (t) => {
      const customer = unique("dates");
      await t.write({ customer_name: customer });
      const record = await t.findRecord({ customer_name: customer });
      const day = (later: number): string => dayOf(record.created_at, later);
      const filter = { customer_name: customer };
      await t.expectCount({ ...filter, start_date: day(0) }, 1);
      await t.expectCount({ ...filter, end_date: day(1) }, 1);
      await t.expectCount({ ...filter, start_date: day(0), end_date: day(1) }, 1);
      await t.expectCount({ ...filter, end_date: day(0) }, 0);
      await t.expectCount({ ...filter, start_date: day(1) }, 0);
    }),
    contract(
      "a malformed date is a 400 INVALID_PARAMETER",
      storeRejects(path, { queries: queriesOf(["start_date", "end_date"], NO_DATES) }),
    ),
    contract("filters are combined with AND", async (t) => {
      const customer = unique("and");
      const orderId = unique("order");
      await t.write({ customer_name: customer, order_id: orderId });
      await t.write({ customer_name: customer });
      await t.expectCount({ customer_name: customer, order_id: orderId }, 1);
      await t.expectCount({ customer_name: unique("none"), order_id: orderId }, 0);
    }),
  ];
};
