import { KIND_NAMES } from "../../../api/contract.ts";
import { checksOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_OBJECTS, rejects } from "../../expectations.ts";
import { registrationsOf } from "./registrations.ts";
import type { Kind } from "./registrations.ts";

export const refundChecks = (kind: Kind): readonly Check[] => {
  const { refundPath: path, idRequired } = KIND_NAMES[kind];
  const { contract, decision } = checksOf(`POST ${path}`, registrationsOf(kind));
  return [
    contract("a refund without a count takes back the whole registration", async (t) => {
      const { record, total } = await t.register({ count: 7, attribution: unique("refund") });
      const refunded = t.readRefunded(await t.refund({ id: record.id, reason: "cancelled" }));
      const { id, attribution } = record;
      expect.fields(refunded, { refunded: 7, total: total - 7, refundId: `refund-${id}` });
      expect.fields(refunded.record, { id, attribution, refunded: true });
      expect.equal("total of the list", (await t.list()).total, total - 7);
    }),
    contract("a refund with a count takes back that many units", async (t) => {
      const { record, total } = await t.register({ count: 5 });
      const refunded = t.readRefunded(await t.refund({ id: record.id, count: 2 }));
      expect.fields(refunded, { refunded: 2, total: total - 2, refundId: `refund-${record.id}` });
      expect.equal("refunded", refunded.record.refunded, true);
    }),
    contract("a missing id is a 400 with its message", async (t) => {
      for (const body of [{}, { count: 1 }, { reason: "none" }, { id: "" }, { id: null }]) {
        expect.error(await t.refund(body), 400, idRequired);
      }
    }),
    contract("a body that is not a JSON object is a 400", rejects(path, { bodies: NO_OBJECTS })),
    contract("a count that is not an integer of at least 1 is a 400", async (t) => {
      const { record, total } = await t.register({ count: 5 });
      const wrong = [0, -1, 1.5, "1", true, [], {}];
      const bodies = wrong.map((count) => ({ id: record.id, count }));
      await rejects(path, { bodies }, /count/u)(t);
      expect.equal("total", (await t.list()).total, total);
    }),
    contract("a reason that is not a text is a 400", async (t) => {
      const { record } = await t.register({ count: 1 });
      const bodies = [true, {}, []].map((reason) => ({ id: record.id, reason }));
      await rejects(path, { bodies }, /reason/u)(t);
    }),
    contract("a refunded registration's idempotency_key still returns it", async (t) => {
      const body = { count: 3, idempotency_key: unique("key") };
      const { record, total } = await t.register(body);
      expect.status(await t.refund({ id: record.id }), 200);
      const replayed = await t.register(body);
      expect.equal("id", replayed.record.id, record.id);
      expect.equal("total", replayed.total, total - 3);
    }),
    contract("another organization's registration cannot be refunded", async (t) => {
      const { record, total } = await t.register({ count: 1 }, "otherTest");
      const answer = await t.refund({ id: record.id });
      expect.status(answer, 400, 403, 404);
      expect.equal("the other total", (await t.list({}, "otherTest")).total, total);
    }),
    decision("partial refunds add up, the count stays, more than remains is a 400", async (t) => {
      const { record, total } = await t.register({ count: 5 });
      t.readRefunded(await t.refund({ id: record.id, count: 2 }));
      expect.error(await t.refund({ id: record.id, count: 4 }), 400, /^count: /u);
      const rest = t.readRefunded(await t.refund({ id: record.id, count: 2 }));
      expect.equal("total", rest.total, total - 4);
      expect.equal("count", rest.record.count, 5);
      expect.error(await t.refund({ id: record.id, count: 2 }), 400);
    }),
    decision("unknown fields, metadata and null are ignored", async (t) => {
      const { record } = await t.register({ count: 1 });
      const body = { id: record.id, metadata: { a: 1 }, foo: true, count: null, reason: null };
      t.readRefunded(await t.service.organization().post(`${path}?id=other&count=9`, body));
    }),
    decision("a misspelt idempotency_key is a 400 that names the right one", async (t) => {
      const { record } = await t.register({ count: 2 });
      const answer = await t.refund({ id: record.id, count: 1, idempotencyKey: "x" });
      expect.error(answer, 400, /\bidempotency_key\b/u);
    }),
  ];
};
