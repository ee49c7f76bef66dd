import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { createTestStore, startStoreApi } from "../../stores/startStoreApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setCustomer, setUpUsage } from "./usageSetup.ts";

const test = testWithDatabase();

const statement = z.looseObject({
  meters: z.array(
    z.looseObject({
      meter: z.string(),
      days: z.array(z.looseObject({ day: z.string() })),
      totals: z.record(z.string(), z.int()),
      processors: z.array(z.looseObject({})).optional(),
    }),
  ),
});

test.serial("a statement adds up, and says that the processor agrees", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(4);
  await scene.drain();
  await setCustomer(scene);
  const billed = await scene.register(9);
  await scene.refund(billed, 2);
  await scene.drain();
  await scene.register(5);
  const month = new Date(Date.now() - 10_000).toISOString().slice(0, 7);
  const run = await scene.impact("statement", "--org", scene.id, "--period", month, "--json");
  t.is(run.exitCode, 0, run.stderr);
  const [tree, bottle] = statement.parse(readJson(run)).meters;
  t.deepEqual(tree?.totals, {
    registered: 18,
    refunded: 2,
    reported: 7,
    late: 0,
    failed: 4,
    waived: 0,
    settled: 0,
    held: 0,
    pending: 5,
  });
  t.is(tree?.days[0]?.day.slice(0, 7), month);
  t.true(
    tree?.processors?.some(
      ({ delivered, processor_quantity: theirs, agrees }) =>
        delivered === 7 && theirs === 7 && agrees === true,
    ),
  );
  t.deepEqual(bottle?.days, []);
  const human = await scene.impact("statement", "--org", scene.id, "--period", "current");
  t.is(human.exitCode, 0, human.stderr);
  t.regex(human.stdout, /tree +total +18 +2 +7 +0 +4 +0 +0 +0 +5\n/u);
  t.regex(human.stderr, /stripe has 7, delivered 7: they agree/u);
});

test.serial(
  "if the processor's sum differs, the exit code is 1 until the difference is acknowledged",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    scene.double.control.addFault({ kind: "reject_later" });
    await scene.register(9);
    await scene.drain();
    const args = ["statement", "--org", scene.id, "--period", "current"];
    const lagging = await scene.impact(...args, "--json");
    t.is(lagging.exitCode, 0, "Stripe's sums may lag");
    const differing = await scene.impactLater(...args);
    t.is(differing.exitCode, 1);
    t.regex(differing.stdout, /tree +total +9 /u, "the statement is printed all the same");
    t.regex(
      differing.stderr,
      /does not confirm the statement: 1 of its sums differ, 0 could not be read/u,
    );
    const json = await scene.impactLater(...args, "--json");
    t.is(json.exitCode, 1);
    t.like(statement.parse(readJson(json)).meters[0]?.processors?.[0], {
      agrees: false,
      error: null,
    });
    const reconciled = await scene.impactLater("usage", "reconcile", "--org", scene.id);
    t.regex(
      reconciled.stderr,
      /lacks exactly event (?<event>\d+)\. To send it again, run: impact usage reopen \k<event> /u,
    );
    const id = /acknowledge-drift (?<id>\d+)/u.exec(reconciled.stderr)?.groups?.["id"] ?? "";
    await scene.impact("usage", "acknowledge-drift", id, "--reason", "credit note 4");
    t.is((await scene.impactLater(...args)).exitCode, 0);
  },
);

test.serial("the details of a statement are NDJSON or CSV, page by page", async (t) => {
  const scene = await setUpUsage(t);
  const id = await scene.register(3);
  // A formula for a spreadsheet, and a control sequence for a terminal.
  const attribution = '=1+1, "x"\u009B2J';
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE registration SET attribution = ${attribution} WHERE id = ${id}
  `);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    SELECT gen_random_uuid(), ${scene.id}, 'live', 'bottle', 1, now() - interval '1 second'
    FROM generate_series(1, 2500)
  `);
  const args = ["statement", "--org", scene.id, "--period", "current", "--detail"];
  const lines = (await scene.impact(...args)).stdout.trimEnd().split("\n");
  t.is(lines.length, 2501);
  t.is(new Set(lines).size, 2501);
  t.like(JSON.parse(lines[0] ?? ""), {
    registration_id: id,
    count: 3,
    usage_states: "unsealed",
    attribution,
  });
  t.notRegex(lines[0] ?? "", /\p{Cc}/u);
  const csv = (await scene.impact(...args, "--csv")).stdout.split("\r\n");
  t.is(csv.length, 2503);
  t.true(csv[1]?.includes(`"'=1+1, ""x""\\u009B2J"`), csv[1]);
});

test.serial("a store's statement has what was paid from its balance", async (t) => {
  const { post } = await startStoreApi(t, t.context);
  const store = await createTestStore(t.context.db, { balanceCents: 1000 });
  await post("/app/api/plant", store.live, { trees: 4 });
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  const env = { DATABASE_URL: t.context.databaseUrl };
  const args = ["statement", "--org", store.id, "--period", "current"];
  const run = await runImpact([...args, "--json"], { env });
  t.is(run.exitCode, 0, run.stderr);
  t.deepEqual(statement.parse(readJson(run)).meters[0]?.totals, {
    registered: 4,
    refunded: 1,
    paid_cents: 200,
    returned_cents: 50,
  });
  const csv = await runImpact([...args, "--csv"], { env });
  t.true(csv.stdout.startsWith("meter,day,registered,refunded,paid_cents,returned_cents\r\n"));
});

test.serial("an unknown account or period is refused", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const unknown = ["statement", "--org", crypto.randomUUID(), "--period"];
  t.is((await runImpact([...unknown, "2026-05"], { env })).exitCode, 3);
  t.is((await runImpact([...unknown, "2026-05", "--detail"], { env })).exitCode, 3);
  t.is((await runImpact([...unknown, "2026-13"], { env })).exitCode, 2);
});
