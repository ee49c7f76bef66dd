import { startApiOf } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";
import { impactOf } from "./runImpact.ts";

const test = testWithDatabase();

const NDJSON = "application/x-ndjson";

test("an organization's lists are the API's files, byte for byte", async (t) => {
  const { url, call, id, key } = await startApiOf(t);
  for (const attribution of ["=1", "b", "c"]) {
    await call("POST", "/plant/trees", { key, body: { count: 1, attribution } });
  }
  await call("POST", "/rescue/plastic_bottles", { key, body: { count: 2 } });
  const run = impactOf(t, {}, "export");

  for (const [list, path] of [
    ["trees", "/plant/trees"],
    ["bottles", "/rescue/plastic_bottles"],
    ["usage", "/usage"],
    ["donations", "/charities/donations"],
  ] as const) {
    for (const [format, accept] of [
      ["csv", "text/csv"],
      ["excel", "application/vnd.ms-excel"],
      ["ndjson", NDJSON],
    ] as const) {
      const response = await fetch(url + path, { headers: { Authorization: key, accept } });
      const { stdout } = await run.ok(list, "--org", id, "--format", format);
      // `text()` would remove a byte order mark.
      const bytes = Buffer.from(await response.arrayBuffer());
      t.is(stdout, bytes.toString(), `${list} as ${format}`);
    }
  }
});

test("a store's lists are the API's files, byte for byte", async (t) => {
  const { url, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.live, { trees: 1, customer_name: "Ann", order_id: "#1" });
  await post("/app/api/plastic", store.live, { bottles: 1 });
  const run = impactOf(t, {}, "export");

  for (const [list, path] of [
    ["trees", "/app/api/plant"],
    ["bottles", "/app/api/plastic"],
    ["donations", "/app/api/charity/donations"],
    ["balance", "/app/api/balance"],
  ] as const) {
    const response = await fetch(url + path, { headers: { ...store.live, accept: NDJSON } });
    const { stdout } = await run.ok(list, "--org", store.domain, "--format", "ndjson");
    t.is(stdout, await response.text(), list);
  }
});

test("the range and the mode select rows", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  for (const day of ["2026-03-01", "2026-03-02", "2026-03-03"]) {
    const clock = { now: () => new Date(`${day}T12:00:00Z`) };
    await registerFor(db, id, { clock, attribution: day });
    await registerFor(db, id, { clock, attribution: `test ${day}`, mode: "test" });
  }
  const run = impactOf(t, {}, "export");
  const attributions = async (list: string, ...args: readonly string[]) =>
    [
      ...(await run(list, "--org", id, "--format", "ndjson", ...args)).stdout.matchAll(
        /"(?:attribution|created_at)":"([^"]*2026-03-\d\d)/gu,
      ),
    ].map(([, text]) => text);

  t.deepEqual(await attributions("usage", "--since", "2026-03-02", "--until", "2026-03-03"), [
    "2026-03-02",
  ]);
  const trees = await attributions("trees", "--since", "2026-03-02", "--mode", "test");
  const inTestMode = trees.filter((text) => text?.startsWith("test"));
  t.deepEqual(inTestMode, ["test 2026-03-03", "test 2026-03-02"]);
});

test("a list that an account does not have is a usage error", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const store = await createTestStore(db);
  const run = impactOf(t, {}, "export");

  for (const [args, message] of [
    [["balance", "--org", id], /An organization has no list of balance/u],
    [["usage", "--org", store.domain], /A store has no list of usage/u],
    [["balance", "--org", store.domain, "--since", "2026-01-01"], /exported whole/u],
  ] as const) {
    const { exitCode, stderr, stdout } = await run(...args);
    t.is(exitCode, 2, stderr);
    t.regex(stderr, message);
    t.is(stdout, "");
  }
});

test("progress is shown on a terminal only", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  await registerFor(db, id);
  const args = ["export", "trees", "--org", id];

  const shown = await impactOf(t, { isTerminal: true }).ok(...args);

  t.regex(shown.stderr, /1 row\b/u);
  t.true(shown.stderr.endsWith("Exported 1 row.\n"));
  t.is((await impactOf(t).ok(...args)).stderr, "Exported 1 row.\n");
});

test("what a terminal would obey is escaped on a terminal only", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const attribution = "\u001B]52;c;aGk=\u0007 \u009B2J \u202Eevil";
  const escaped = String.raw`\u001B]52;c;aGk=\u0007 \u009B2J \u202Eevil`;
  await registerFor(db, id, { attribution });
  const run = async (format: string, isTerminal: boolean) =>
    (await impactOf(t, { isTerminal })("export", "trees", "--org", id, "--format", format)).stdout;

  const csv = await run("csv", true);
  t.true(csv.includes(escaped), csv);
  t.regex(csv, /^[^\p{Cc}\p{Bidi_Control}]+\r\n[^\p{Cc}\p{Bidi_Control}]+\r\n$/u);
  const ndjson = await run("ndjson", true);
  t.regex(ndjson, /^[^\p{Cc}\p{Bidi_Control}]+\n$/u);
  t.deepEqual(JSON.parse(ndjson), JSON.parse(await run("ndjson", false)));
  t.true((await run("csv", false)).includes(attribution));
});
