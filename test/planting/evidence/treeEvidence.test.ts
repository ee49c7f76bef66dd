import { z } from "zod";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { startEvidenceApi } from "./evidenceApi.ts";
import type { Evidence } from "./evidenceApi.ts";
import { EVIDENCE_STAGES } from "../../../modules/planting/timeline.rules.ts";

const test = testWithDatabase().serial;

const evidenceOf = ({ timeline = [] }: Evidence, event: string): unknown =>
  timeline.find((milestone) => milestone.event === event)?.evidence;

test("the simulated photos in the evidence can be fetched, at the public base URL", async (t) => {
  const { setup, read, url } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await setup.createAndPlace();
  await setup.pass(2 * STAGE_MS);
  const texts = await Promise.all(
    [`/evidence/tree/${id}`, "/evidence"].map(async (path) => (await read(path)).text),
  );
  const text = texts.join("\n");
  const origins = text.match(/https?:\/\/[a-z.]+/gu) ?? [];
  t.deepEqual([...new Set(origins)], ["https://impact.example"]);
  const paths = [...text.matchAll(/https:\/\/impact\.example(\/[^"]+)/gu)].map(([, path]) => path);
  t.true(paths.length >= 5);
  for (const path of paths) {
    const response = await fetch(`${url}${path ?? ""}`);
    t.is(response.status, 200);
    t.is(response.headers.get("Content-Type"), "image/svg+xml");
    t.true((await response.text()).startsWith("<svg"));
  }
});

test("all processes return the same bytes until a milestone is reached", async (t) => {
  const { setup, read, serve } = await startEvidenceApi(t);
  const other = await serve();
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const first = await read(path);
  const repeat = await other.read(path);
  t.is(repeat.text, first.text);
  t.is(repeat.headers.get("ETag"), first.headers.get("ETag"));
  await setup.createAndPlace();
  t.is((await other.read(path)).json.status, "funds_distributed");
  await setup.pass(3 * STAGE_MS);
  const verified = await read(path);
  t.is(verified.json.status, "planted_and_verified");
  setup.clock.set("2026-05-20T10:00:00.000Z");
  const later = await other.read(path);
  t.is(later.text, verified.text);
});

test("a client with the current evidence gets a 304, at any spelling of its path", async (t) => {
  const { setup, read, url } = await startEvidenceApi(t);
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const { text, headers } = await read(path);
  const etag = headers.get("ETag") ?? "";
  t.not(etag, "");
  for (const spelling of [
    path,
    `${path}/`,
    `${path}?utm_source=x`,
    path.replace(id, id.toUpperCase()),
  ]) {
    t.like(await read(spelling, { headers: { "If-None-Match": etag } }), { status: 304, text: "" });
    t.is((await read(spelling)).text, text);
  }
  const Authorization = setup.organization.apiKeyProd;
  t.is((await fetch(url + path, { method: "HEAD", headers: { Authorization } })).status, 200);
  await setup.createAndPlace();
  t.is((await read(path, { headers: { "If-None-Match": etag } })).status, 200);
});

test("clients may cache evidence once the order is no longer polled", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await setup.createAndPlace();
  await setup.pass(2 * STAGE_MS);
  const planted = await read(`/evidence/tree/${id}`);
  t.is(planted.headers.get("Cache-Control"), "private, no-cache");
  await setup.pass(STAGE_MS);
  const { json, headers } = await read(`/evidence/tree/${id}`);
  t.is(json.status, "planted_and_verified");
  t.is(headers.get("Cache-Control"), "private, max-age=2592000");
});

test("concurrent reads return each tree's own evidence, and nothing to others", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const ids: string[] = [];
  for (const count of [1, 2, 3, 4, 5]) {
    ids.push(await setup.register(count));
  }
  await setup.createAndPlace();
  const reads = Array.from({ length: 40 }, async (_, index) => {
    const id = ids[index % ids.length] ?? "";
    const [own, inTest] = await Promise.all([
      read(`/evidence/tree/${id}`),
      read(`/evidence/tree/${id}`, { mode: "test" }),
    ]);
    const registered = z.object({ count: z.int() }).parse(evidenceOf(own.json, "registered"));
    return [registered.count === (index % ids.length) + 1, inTest.status];
  });
  for (const outcome of await Promise.all(reads)) {
    t.deepEqual(outcome, [true, 404]);
  }
});

test("evidence shows each refund at once, from every process", async (t) => {
  const { setup, serve } = await startEvidenceApi(t);
  const unorderedId = await setup.register(3);
  await setup.refund(unorderedId, 3);
  const id = await setup.register(3);
  await setup.plant();
  const processes = [await serve(), await serve()];
  const [unordered] = await Promise.all(
    processes.map(({ read }) => read(`/evidence/tree/${unorderedId}`)),
  );
  t.is(
    unordered?.json.timeline?.[0]?.["description"],
    "The trees were registered, and refunded in full before they were ordered.",
  );
  const readAll = () => processes.map(({ read }) => read(`/evidence/tree/${id}`));
  for (const refundedCount of [1, 2, 3]) {
    // Look-ups that are running must not serve later requests.
    const earlier = [...readAll(), ...readAll()];
    await setup.refund(id, 1);
    const later = await Promise.all(readAll());
    await Promise.all(earlier);
    for (const { json } of later) {
      t.is(json.refunded_count, refundedCount);
    }
  }
});

test("simulated evidence has the date of the registration, and the same reference ids at every stage and call", async (t) => {
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const real = await read(path);
  const numbers: object[] = [];
  for (const stage of EVIDENCE_STAGES) {
    const readStage = () => read(`${path}?evidence_stage=${stage}`);
    const { json, headers, text } = await readStage();
    t.true(json.simulated);
    t.is(headers.get("Evidence-Simulated"), "true");
    for (const { timestamp } of json.timeline ?? []) {
      t.true(timestamp === undefined || timestamp === "2026-05-01T10:00:00.000Z");
    }
    t.is((await readStage()).text, text);
    numbers.push(json.provider_meta ?? {});
  }
  const last = numbers.at(-1) ?? {};
  t.is(new Set(Object.values(last)).size, 5);
  for (const earlier of numbers) {
    t.deepEqual({ ...last, ...earlier }, last);
  }
  t.is((await read(path)).text, real.text);
});

test("a test key's trees are simulated with every partner", async (t) => {
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(7, { mode: "test" });
  const path = `/evidence/tree/${id}`;
  t.true((await read(path, { mode: "test" })).json.simulated);
  await setup.createAndPlace();
  const { json, headers } = await read(path, { mode: "test" });
  t.is(json.status, "funds_distributed");
  t.true(json.simulated);
  t.is(headers.get("Evidence-Simulated"), "true");
});
