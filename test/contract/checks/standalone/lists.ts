import { KIND_NAMES } from "../../../api/contract.ts";
import { atOnce, checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_DATES, queriesOf, rejects } from "../../expectations.ts";
import { registrationsOf } from "./registrations.ts";
import type { Kind } from "./registrations.ts";

const ODD_TEXTS = [
  "a&b=c",
  "50% #1 + 2?",
  "日本語 träd 🌳",
  `it's "quoted", \\back\\slashed\\n`,
  "a/b;c,d -- $1",
  "%25",
  "_%",
  "\u0001\b\f\n\r\t\u007F\u2028",
];

export const listChecks = (kind: Kind): readonly Check[] => {
  const { path } = KIND_NAMES[kind];
  const { contract, decision } = checksOf(`GET ${path}`, registrationsOf(kind));
  return [
    contract("lists a new record with what its creation returned", async (t) => {
      const texts = { attribution: unique("listed"), idempotency_key: unique("key") };
      const created = await t.register({ count: 4, metadata: { order: "A-1" }, ...texts });
      const { records, total, month } = await t.list({ id: created.record.id });
      expect.equal("records", records.length, 1);
      const { id, count, idempotency_key: key, metadata, attribution } = created.record;
      expect.fields(records[0] ?? {}, { id, count, idempotency_key: key, metadata, attribution });
      const listedAt = Date.parse(records[0]?.created_at ?? "");
      expect.equal("created_at", listedAt, Date.parse(created.record.created_at));
      expect.fields({ total, month }, { total: created.total, month: created.month });
    }),
    contract("without filters it lists every record", async (t) => {
      const { record } = await t.register({ count: 1 });
      const { records } = await t.list();
      const isListed = records.some(({ id }) => id === record.id);
      expect.that(isListed, "the new record must be listed", record.id);
    }),
    contract("there are no pages: 130 records are listed at once", async (t) => {
      const attribution = unique("many");
      const register = async () => (await t.register({ count: 1, attribution })).record.id;
      const ids = await atOnce(130, register);
      await t.expectListed({ attribution_key: attribution }, ids);
    }),
    contract("attribution_key matches the whole attribution", async (t) => {
      const attribution = unique("Spring");
      const { record } = await t.register({ count: 1, attribution });
      await t.register({ count: 1, attribution: `${attribution}-2` });
      await t.expectListed({ attribution_key: attribution }, [record.id]);
      await t.expectListed({ attribution_key: attribution.slice(0, -1) }, []);
      await t.expectListed({ attribution_key: unique("none") }, []);
    }),
    contract("filters match any characters", async (t) => {
      for (const text of ODD_TEXTS) {
        const attribution = unique(text);
        const metadata = { [attribution]: attribution, list: [attribution] };
        const body = { count: 1, attribution, metadata, idempotency_key: attribution };
        const { record } = await t.register(body);
        await t.expectListed({ attribution_key: attribution }, [record.id]);
        const pairs = JSON.stringify({ [attribution]: attribution });
        await t.expectListed({ metadata: pairs }, [record.id]);
        const { records } = await t.list({ id: record.id });
        expect.fields(records[0] ?? {}, body);
      }
    }),
    contract("another organization's record is not listed", async (t) => {
      const other = await t.register({ count: 1 }, "otherTest");
      await t.expectListed({ id: other.record.id }, []);
    }),
    contract("a record of the other kind is not listed", async (t) => {
      const other = registrationsOf(kind === "tree" ? "bottle" : "tree")(t.service);
      const { record } = await other.register({ count: 1 });
      await t.expectListed({ id: record.id }, []);
    }),
    contract("created_at and end_at are inclusive", async (t) => {
      const attribution = unique("dates");
      const { record } = await t.register({ count: 1, attribution });
      const day = (later: number): string => dayOf(record.created_at, later);
      const filter = { attribution_key: attribution };
      for (const range of [
        { created_at: day(0) },
        { end_at: day(0) },
        { created_at: day(0), end_at: day(0) },
        { created_at: day(-1), end_at: day(1) },
      ]) {
        await t.expectListed({ ...filter, ...range }, [record.id]);
      }
      for (const range of [
        { created_at: day(1) },
        { end_at: day(-1) },
        { created_at: day(-400), end_at: day(-1) },
        { created_at: day(1), end_at: day(400) },
      ]) {
        await t.expectListed({ ...filter, ...range }, []);
      }
    }),
    contract(
      "a malformed date is a 400",
      rejects(path, { queries: queriesOf(["created_at", "end_at"], [...NO_DATES, "2026", "1"]) }),
    ),
    contract("metadata matches if all given pairs match", async (t) => {
      const run = unique("run");
      const create = async (metadata: Readonly<Record<string, unknown>>): Promise<string> =>
        (await t.register({ count: 1, metadata: { run, ...metadata } })).record.id;
      const one = await create({ campaign: "spring", n: 1 });
      const two = await create({ campaign: "spring", n: 2, more: { deep: ["x"] } });
      const filter = (pairs: Readonly<Record<string, unknown>>) => ({
        metadata: JSON.stringify({ run, ...pairs }),
      });
      await t.expectListed(filter({}), [one, two]);
      await t.expectListed(filter({ campaign: "spring" }), [one, two]);
      await t.expectListed(filter({ campaign: "spring", n: 2 }), [two]);
      await t.expectListed(filter({ campaign: "spring", n: 3 }), []);
      await t.expectListed(filter({ campaign: "Spring" }), []);
      await t.expectListed(filter({ absent: "x" }), []);
      await t.expectListed({ attribution_key: unique("none"), ...filter({}) }, []);
    }),
    contract("metadata values match by type, and objects and arrays as a whole", async (t) => {
      const attribution = unique("types");
      const metadata = { text: "1", number: 1, truth: true, nothing: null, object: { a: [1, 2] } };
      const { record } = await t.register({ count: 1, attribution, metadata });
      const found: readonly Readonly<Record<string, unknown>>[] = [
        {},
        metadata,
        { number: 1.0 },
        ...Object.entries(metadata).map(([name, value]) => ({ [name]: value })),
      ];
      const notFound = [
        { text: 1 },
        { number: "1" },
        { truth: "true" },
        { nothing: "null" },
        { object: { a: [2, 1] } },
        { absent: null },
      ];
      for (const filter of [...found, ...notFound]) {
        const ids = found.includes(filter) ? [record.id] : [];
        const query = { attribution_key: attribution, metadata: JSON.stringify(filter) };
        await t.expectListed(query, ids);
      }
    }),
    contract(
      "metadata that is not a JSON object is a 400",
      rejects(path, {
        queries: queriesOf(["metadata"], ["{", "campaign=spring", "[]", '"text"', "1"]),
      }),
    ),
    contract("filters are combined with AND", async (t) => {
      const attribution = unique("and");
      const { record } = await t.register({ count: 1, attribution, metadata: { a: "1", b: "2" } });
      await t.register({ count: 1, attribution, metadata: { a: "1" } });
      const day = dayOf(record.created_at);
      const range = { created_at: day, end_at: day, id: record.id };
      const all = { attribution_key: attribution, metadata: '{"b":"2"}', ...range };
      await t.expectListed(all, [record.id]);
      await t.expectListed({ ...all, attribution_key: "other" }, []);
    }),
    contract("30 overlapping lists are all answered", async (t) => {
      const { record } = await t.register({ count: 1 });
      const counts = await atOnce(30, async () => (await t.list()).records.length);
      expect.equal("different lengths", new Set(counts).size, 1);
      await atOnce(30, () => t.expectListed({ id: record.id }, [record.id]));
    }),
    decision("the totals are the account's, whatever the filter", async (t) => {
      const created = await t.register({ count: 3 });
      const { records, total } = await t.list({ attribution_key: unique("none") });
      expect.equal("records", records, []);
      expect.equal("total", total, created.total);
    }),
    decision("a refunded record stays listed with its original count", async (t) => {
      const { record } = await t.register({ count: 5 });
      expect.status(await t.refund({ id: record.id, count: 2 }), 200);
      const { records } = await t.list({ id: record.id });
      expect.equal("count", records[0]?.count, 5);
      expect.that(records[0]?.refunded !== false, "refunded must be true", records[0]?.refunded);
    }),
  ];
};
