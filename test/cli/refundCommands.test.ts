import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { setUpUsage } from "../billing/repair/usageSetup.ts";
import { idIn } from "../api/contract.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { createDonation } from "../charities/donations/donationSetup.ts";
import { readJson, impactOf } from "./runImpact.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const REASON = ["--reason", "wrong order", "--as", "ada"];
const THREE_UNITS = ["--count", "3", ...REASON, "--json"];

test.serial("an operator refunds a part, once for each key; a dry run says so", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  const [id, other] = [await scene.register(9), await scene.register(9)];
  await scene.drain();
  const refund = (registration: string, ...args: readonly string[]) =>
    scene.impact("refund", registration, ...REASON, "--json", ...args);
  const key = ["--idempotency-key", "ticket-7"];
  const planned = await refund(id, ...key, "--count", "4", "--dry-run");
  t.like(readJson(planned), { refunded_count: 4, replayed: false, dry_run: true });
  await scene.impact.ok("refund", id, ...REASON, ...key, "--count", "4");
  t.like(readJson(await refund(id, ...key)), { refunded_count: 4, replayed: true });
  await scene.drain();
  t.is(scene.billed(), 5 + 9);
  const reasons = await t.context.db.anyFirst(sql.type(z.strictObject({ reason: z.string() }))`
    SELECT reason FROM refund WHERE registration_id = ${id}
  `);
  t.deepEqual(reasons, ["wrong order"]);

  const replayed = await refund(id, ...key, "--count", "9", "--dry-run");
  t.like(readJson(replayed), { refunded_count: 4, replayed: true, dry_run: true });
  t.regex(replayed.stderr, /^Already refunded: 4 trees of/u);
  const refused = await refund(other, ...key, "--dry-run");
  t.is(refused.exitCode, 2);
  t.is(refused.stderr, (await refund(other, ...key)).stderr);
  const rest = await refund(id, "--idempotency-key", "ticket-9", "--dry-run");
  t.like(readJson(rest), { refunded_count: 5, replayed: false });
  t.is((await refund(id, "--count", "6")).exitCode, 2);
  t.is((await refund(crypto.randomUUID())).exitCode, 3);
});

test.serial("a store's units return to its balance, and a dry run says the same", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const plant = async (trees: number) =>
    (await post("/app/api/plant", store.live, { trees })).headers.get("Record-Id") ?? "";
  const [id, other] = [await plant(4), await plant(5)];
  const impact = impactOf(t);
  /** Runs a refund after its dry run, and compares them. */
  const refund = async (registration: string, ...args: readonly string[]) => {
    const all = ["refund", registration, ...REASON, "--json", ...args];
    const planned = await impact(...all, "--dry-run");
    const done = await impact(...all);
    t.is(planned.exitCode, done.exitCode);
    return { planned, done };
  };
  const first = ["--idempotency-key", "first"];
  const tooMany = await refund(id, ...first, "--count", "5");
  t.regex(tooMany.done.stderr, /count: only 4 can still be refunded/u);
  const all = await refund(id, ...first);
  t.like(readJson(all.planned), { refunded_count: 4, replayed: false, dry_run: true });
  t.like(readJson(all.done), { refunded_count: 4, replayed: false });
  const again = await refund(id, ...first);
  t.like(readJson(again.planned), { refunded_count: 4, replayed: true, dry_run: true });
  t.like(readJson(again.done), { refunded_count: 4, replayed: true });
  const nothingLeft = await refund(id, "--idempotency-key", "second");
  t.regex(nothingLeft.done.stderr, /tree registration is already fully refunded/u);
  const taken = await refund(other, ...first);
  t.is(taken.done.exitCode, 2);
  for (const { planned, done } of [tooMany, nothingLeft, taken]) {
    t.is(planned.stderr, done.stderr);
  }
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 750 });
});

test.serial("an operator and an organization may refund with the same key", async (t) => {
  const { call, key, id: org } = await startApiOf(t);
  const plant = async (count: number): Promise<string> =>
    idIn((await call("POST", "/plant/trees", { key, body: { count } })).body, "tree");
  const [id, other] = [await plant(10), await plant(4)];
  const impact = impactOf(t);
  const refundAsOperator = (registration: string, idempotencyKey: string) =>
    impact("refund", registration, "--idempotency-key", idempotencyKey, ...THREE_UNITS);
  const refundAsClient = async (registration: string, idempotencyKey: string) => {
    const body = { id: registration, count: 2, idempotency_key: idempotencyKey };
    const response = await call("POST", "/refund/trees", { key, body });
    return {
      status: response.status,
      refunded: response.body["refunded_trees"],
      replayed: response.headers.get("Idempotent-Replayed"),
    };
  };
  const refunded = { status: 200, refunded: 2, replayed: null };

  t.like(readJson(await refundAsOperator(id, "1001")), { refunded_count: 3, replayed: false });
  t.deepEqual(await refundAsClient(id, "1001"), refunded);
  t.deepEqual(await refundAsClient(other, "1002"), refunded);
  t.like(readJson(await refundAsOperator(id, "1002")), { refunded_count: 3, replayed: false });

  t.deepEqual(await refundAsClient(id, "1001"), { ...refunded, replayed: "true" });
  t.like(readJson(await refundAsOperator(id, "1002")), { refunded_count: 3, replayed: true });
  const batch = { items: [{ id, count: 2, idempotency_key: "1001" }] };
  const repeated = await call("POST", "/refund/trees/batch", { key, body: batch });
  t.like(repeated.body, { results: [{ idempotent_replayed: true }] });
  t.like((await call("GET", "/plant/trees", { key })).body, { total_planted_trees: 4 });
  const found = await impact.json("find", "1001", "--org", org);
  const { records } = z.looseObject({ records: z.array(z.unknown()) }).parse(found);
  t.like(records, [{ id, found_by: ["refund_idempotency_key"] }]);
  t.is(records.length, 1);
});

test.serial("a donation is refunded once", async (t) => {
  const id = await createDonation(t.context.db);
  const impact = impactOf(t);
  const args = ["refund", id, ...REASON];
  const planned = await impact(...args, "--dry-run");
  const plan = /Without --dry-run, the command refunds the donation of \$25\.00 to Sea/u;
  t.regex(planned.stderr, plan);
  t.regex((await impact(...args)).stderr, /Refunded: the donation/u);
  t.regex((await impact(...args)).stderr, /Already refunded/u);
  const listed = await impact.json("audit", "list", "--action", "refund.donation");
  t.like(listed, [{ subject: id, operator: "ada", reason: "wrong order" }]);
  t.regex((await impact(...args, "--count", "1")).stderr, /refunded whole and once/u);
});

test.serial("refunding a store's donation is an event", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const gift = { charity_id: "53-0196605", amount: 2 };
  const { headers } = await post("/app/api/charity/donate", store.live, gift);
  const id = headers.get("Record-Id") ?? "";
  const impact = impactOf(t);

  await impact.ok("refund", id, ...REASON);
  const { body } = await get("/app/api/charity/donations", store.live);
  t.like(rowsIn(body, "donations"), [{ id, refunded: true }]);
  const types = await t.context.db.anyFirst(sql.type(z.strictObject({ type: z.string() }))`
    SELECT type FROM event WHERE account_id = ${store.id}
  `);
  t.deepEqual(types, ["donation.refunded"]);
});
