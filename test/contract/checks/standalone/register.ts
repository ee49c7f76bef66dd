import { atOnce, checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_OBJECTS, rejects } from "../../expectations.ts";
import { KIND_NAMES } from "../../../api/contract.ts";
import { registrationsOf } from "./registrations.ts";
import type { Kind } from "./registrations.ts";

export const registerChecks = (kind: Kind): readonly Check[] => {
  const { path } = KIND_NAMES[kind];
  const { contract, decision } = checksOf(`POST ${path}`, registrationsOf(kind));
  return [
    contract("returns the record with the contract's fields", async (t) => {
      const attribution = unique("shape");
      const metadata = { campaign: "spring", nested: { list: [1, 2.5, null, true], "": "" } };
      const { record } = await t.register({ count: 3, attribution, metadata });
      expect.fields(record, { count: 3, attribution, metadata, refunded: false });
      const ageMs = Math.abs(Date.now() - Date.parse(record.created_at));
      expect.that(ageMs < 300_000, "created_at must be the present time", record.created_at);
    }),
    contract("without optional fields, idempotency_key is the empty string", async (t) => {
      const { record } = await t.register({ count: 1 });
      expect.equal("idempotency_key", record.idempotency_key, "");
    }),
    contract("both totals rise by the count", async (t) => {
      const before = await t.register({ count: 1 });
      const after = await t.register({ count: 17 });
      expect.equal("all-time total", after.total, before.total + 17);
      if (before.record.created_at.slice(0, 7) === after.record.created_at.slice(0, 7)) {
        expect.equal("month total", after.month, before.month + 17);
      }
      expect.that(after.total >= after.month, "the all-time total includes the month", after);
    }),
    contract("each request without a key creates a record", async (t) => {
      const first = await t.register({ count: 1, attribution: "same" });
      const second = await t.register({ count: 1, attribution: "same" });
      expect.that(first.record.id !== second.record.id, "ids must differ", second.record.id);
    }),
    contract("a repeated idempotency_key returns the first record, counts nothing", async (t) => {
      const idempotencyKey = unique("key");
      const body = { count: 2, attribution: unique("replay"), idempotency_key: idempotencyKey };
      const first = await t.register(body);
      expect.equal("idempotency_key", first.record.idempotency_key, idempotencyKey);
      const repeated = await t.register(body);
      expect.equal("response", repeated, first);
      await t.expectListed({ attribution_key: body.attribution }, [first.record.id]);
    }),
    contract("a repeated idempotency_key with another body returns the first record", async (t) => {
      const idempotencyKey = unique("key");
      const first = await t.register({ count: 2, idempotency_key: idempotencyKey });
      const other = { count: 99, attribution: "other", metadata: { a: 1 } };
      const repeated = await t.register({ ...other, idempotency_key: idempotencyKey });
      expect.equal("response", repeated, first);
    }),
    contract("20 overlapping requests with one idempotency_key create one record", async (t) => {
      const body = { count: 5, attribution: unique("race"), idempotency_key: unique("key") };
      const before = await t.list({ attribution_key: body.attribution });
      const ids = await atOnce(20, async () => (await t.register(body)).record.id);
      expect.equal("ids", new Set(ids).size, 1);
      const after = await t.list({ attribution_key: body.attribution });
      expect.equal("records", after.records.length, 1);
      expect.equal("total", after.total, before.total + 5);
    }),
    contract("another organization's idempotency_key is unrelated", async (t) => {
      const idempotencyKey = unique("key");
      const own = await t.register({ count: 1, idempotency_key: idempotencyKey });
      const other = await t.register({ count: 2, idempotency_key: idempotencyKey }, "otherTest");
      expect.that(own.record.id !== other.record.id, "ids must differ", other.record.id);
      expect.equal("count", other.record.count, 2);
    }),
    contract("the production key records too, apart from test records", async (t) => {
      const before = await t.list();
      const { record } = await t.register({ count: 1 }, "prod");
      const after = await t.list({ id: record.id });
      expect.equal("test total", after.total, before.total);
      expect.equal("live record with the test key", after.records, []);
      expect.status(await t.refund({ id: record.id }, "prod"), 200);
    }),
    contract("a count that is not an integer of at least 1 is a 400", async (t) => {
      const before = await t.list();
      const wrong = [0, -1, 1.5, "3", "", "three", true, null, [], [1], {}, -(2 ** 53 - 1), 1e300];
      const bodies = [{}, ...wrong.map((count) => ({ count }))];
      await rejects(path, { bodies }, /count/u)(t);
      expect.equal("total", (await t.list()).total, before.total);
    }),
    contract("wrong types of the optional fields are a 400", async (t) => {
      for (const [field, wrong] of [
        ["attribution", [true, {}, []]],
        ["idempotency_key", [true, {}, []]],
        ["metadata", ["text", 7, true, [], [{}], '{"a":1}']],
      ] as const) {
        const bodies = wrong.map((value) => ({ count: 1, [field]: value }));
        await rejects(path, { bodies }, field === "metadata" ? /metadata/u : undefined)(t);
      }
    }),
    contract(
      "no body, and one that is not a JSON object, is a 400",
      rejects(path, { bodies: [undefined, ...NO_OBJECTS, '{"count":01}'] }),
    ),
    contract("texts of every script come back as they were sent", async (t) => {
      for (const attribution of [
        "Zoë – 日本語 🌳",
        " padded ",
        "a\nb\tc",
        `"quoted" \\ 'single'`,
        "<b>&amp;",
        "%20+#?/",
      ]) {
        const metadata = { [attribution]: attribution };
        const { record } = await t.register({ count: 1, attribution, metadata });
        expect.fields(record, { attribution, metadata });
      }
    }),
    contract("300 requests at once are all recorded", async (t) => {
      const attribution = unique("burst");
      const before = await t.list({ attribution_key: attribution });
      await atOnce(300, () => t.register({ count: 2, attribution }));
      const after = await t.list({ attribution_key: attribution });
      expect.equal("records", after.records.length, 300);
      expect.equal("distinct ids", new Set(after.records.map(({ id }) => id)).size, 300);
      expect.equal("total", after.total, before.total + 600);
    }),
    contract("a count of 3,000,000,000 is recorded and totalled exactly", async (t) => {
      const before = await t.list();
      const { record, total } = await t.register({ count: 3_000_000_000 });
      try {
        expect.equal("count", record.count, 3_000_000_000);
        expect.equal("total", total, before.total + 3_000_000_000);
      } finally {
        expect.status(await t.refund({ id: record.id }), 200);
      }
    }),
    decision("totals reach 2^53-1; a registration beyond it is a 400", async (t) => {
      const before = await t.list();
      const count = Number.MAX_SAFE_INTEGER - before.total;
      const { record, total } = await t.register({ count });
      try {
        expect.equal("count", record.count, count);
        expect.equal("total", total, Number.MAX_SAFE_INTEGER);
        expect.error(await t.service.organization().post(path, { count: 1 }), 400, /^count: /u);
      } finally {
        expect.status(await t.refund({ id: record.id }), 200);
      }
      expect.equal("total", (await t.list()).total, before.total);
    }),
    decision("null in an optional field is the same as none", async (t) => {
      const body = { count: 1, attribution: null, metadata: null, idempotency_key: null };
      const { record } = await t.register(body);
      expect.fields(record, { idempotency_key: "", attribution: "", metadata: {} });
    }),
    decision("an empty idempotency_key is none", async (t) => {
      const first = await t.register({ count: 1, idempotency_key: "" });
      const second = await t.register({ count: 1, idempotency_key: "" });
      expect.that(first.record.id !== second.record.id, "ids must differ", second.record.id);
    }),
    decision("keys are compared byte by byte", async (t) => {
      const key = unique("Key");
      const spellings = [key, key.toLowerCase(), `${key} `, ` ${key}`, key.replaceAll("-", "")];
      const keys = [...spellings, `${key}e\u0301`, `${key}\u00e9`];
      const ids = new Set<string>();
      for (const idempotencyKey of keys) {
        ids.add((await t.register({ count: 1, idempotency_key: idempotencyKey })).record.id);
      }
      expect.equal("distinct records", ids.size, keys.length);
    }),
    decision("a key of the other kind or mode is unrelated", async (t) => {
      const body = { count: 1, idempotency_key: unique("key") };
      const other = kind === "tree" ? "bottle" : "tree";
      const first = await t.register(body);
      const second = await registrationsOf(other)(t.service).register(body);
      const live = await t.register(body, "prod");
      const ids = [first, second, live].map(({ record }) => record.id);
      expect.equal("records", new Set(ids).size, 3);
      expect.status(await t.refund({ id: live.record.id }, "prod"), 200);
    }),
    decision("a replay after a refund returns the record as it is now", async (t) => {
      const body = { count: 2, idempotency_key: unique("key") };
      const { record } = await t.register(body);
      expect.status(await t.refund({ id: record.id }), 200);
      expect.fields((await t.register(body)).record, { id: record.id, refunded: true });
    }),
    decision("a replay carries Idempotent-Replayed: true, the first one does not", async (t) => {
      const body = { count: 1, idempotency_key: unique("key") };
      const first = await t.service.organization().post(path, body);
      expect.equal("header of the first response", first.headers.get("idempotent-replayed"), null);
      const second = await t.service.organization().post(path, body);
      expect.equal("header of the replay", second.headers.get("idempotent-replayed"), "true");
    }),
  ];
};
