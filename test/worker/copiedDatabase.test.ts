import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import test from "ava";
import { pino } from "pino";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import {
  changeDeployment,
  lockDeployment,
  readDeployment,
} from "../../modules/billing/deployment.sql.ts";
import { sql } from "../../db/sql.ts";
import { findEndpoint, updateEndpoints } from "../../modules/events/endpoints.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { LiveProcessor } from "../../modules/billing/deployment.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { ProcessorMismatchError } from "../../modules/billing/processor.ts";
import { requireProcessor } from "../../modules/billing/createBilling.ts";
import { createDeploymentName, getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { createWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
import { awaitDeploymentName } from "../../worker/deployment.ts";
import { backgroundQueue } from "../../runtime/temporalNames.rules.ts";
import { diagnose } from "../cli/diagnose.ts";
import { runImpact, readJson } from "../cli/runImpact.ts";
import { refunded } from "../events/readEvents.ts";
import { copyDatabase, openTestPool } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import {
  eventually,
  isPolled,
  openNamespace,
  startProgram,
  TEMPORAL_ADDRESS,
} from "../support/programs.ts";
import { LOOPBACK, createDeliveriesTo, deliveryContext } from "../events/webhookScene.ts";
import { startReceiver } from "../events/startReceiver.ts";
import { recordPass } from "../../db/perpetualWork.sql.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { createRunWorker } from "../../worker/runWorker.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const LIVE = { id: "acct_original", isLive: true } as const;

const open = async (t: ExecutionContext, url: string, env: Readonly<Record<string, string>>) => ({
  url,
  db: await openTestPool(t, url, 2),
  impact: (...args: readonly string[]) => runImpact(args, { env: { DATABASE_URL: url, ...env } }),
});

/** Creates the database of a deployment, and a copy of it. */
const fork = async (
  t: ExecutionContext,
  settings: Readonly<Record<string, string>> = {},
  processor: LiveProcessor = { name: "stripe", account: LIVE },
  fill: (db: DatabasePool) => Promise<void> = () => Promise.resolve(),
) => {
  const url = await copyDatabase(t);
  const db = await openTestPool(t, url, 1);
  const name = await getDeploymentName({ db, clock: systemClock });
  await db.transaction(async (transaction) => {
    await lockDeployment(transaction);
    await changeDeployment(transaction, { processor });
  });
  await fill(db);
  await db.end();
  const copied = await copyDatabase(t, url);
  return { name, original: await open(t, url, settings), copy: await open(t, copied, settings) };
};

/** Waits for a database's name as a worker does. Returns the messages of the log so far, and the name. */
const startWaiting = (t: ExecutionContext, { db }: { readonly db: DatabasePool }) => {
  const messages: string[] = [];
  const stop = new AbortController();
  const write = (line: string) =>
    messages.push(z.object({ msg: z.string() }).parse(JSON.parse(line)).msg);
  const deps = { db, clock: systemClock, logger: pino({}, { write }), intervalMs: 20 };
  const named = awaitDeploymentName(deps, stop.signal);
  t.teardown(() => {
    stop.abort();
    return named.catch(() => null);
  });
  return { messages, named };
};

test("a worker of a copied database waits until an operator says that it replaces the old one", async (t) => {
  const { name, original, copy } = await fork(t);
  const { messages, named } = startWaiting(t, copy);
  await eventually(() => messages.length > 0);
  t.regex(messages[0] ?? "", /usage resume.*--as-copy.*does not poll Temporal/u);

  const planned = await copy.impact("usage", "resume", "--dry-run");
  t.regex(planned.stdout, /Nothing was changed\. The command would end the hold of restore guard/u);
  t.true((await readDeployment(copy.db)).isServerChanged);
  const run = await copy.impact("usage", "resume", "--as", "maria");

  t.is(run.exitCode, 0, run.stderr);
  t.regex(run.stdout, /\[done\] {2}The hold was ended; this database replaces the old one/u);
  t.is((await named)?.name, name);
  t.like(await readDeployment(copy.db), {
    isServerChanged: false,
    hold: null,
    processor: { name: "stripe", account: LIVE },
  });
  t.is((await startWaiting(t, original).named)?.name, name);
  const again = await copy.impact("usage", "resume", "--json");
  t.like(readJson(again), { ended_hold: null, doubted_until: null });
});

test("a copy beside the original has a different name, and never bills through the original's live account", async (t) => {
  const { name, original, copy } = await fork(t);
  const waiting = startWaiting(t, copy);
  await eventually(() => waiting.messages.length > 0);

  const run = await copy.impact("usage", "resume", "--as-copy", "--as", "maria");

  t.is(run.exitCode, 0, run.stderr);
  // It may have checked its Stripe account against the original's.
  await t.throwsAsync(waiting.named, { message: /separated from .* Start the worker again/u });
  const separated = await startWaiting(t, copy).named;
  t.not(separated?.name, name);
  t.regex(run.stdout, new RegExp(`deployment ${separated?.name}; ${name} continues`, "u"));
  t.like(await readDeployment(copy.db), { isServerChanged: false, processor: null, hold: null });
  await t.throwsAsync(requireProcessor(copy.db, { name: "stripe", account: LIVE }), {
    instanceOf: ProcessorMismatchError,
    message: /copy of one that bills through the Stripe account acct_original \(live mode\)/u,
  });
  await requireProcessor(copy.db, { name: "stripe", account: { ...LIVE, isLive: false } });
  t.is(await getDeploymentName({ db: original.db, clock: systemClock }), name);
  t.like(await readDeployment(original.db), { hold: null, processor: { account: LIVE } });
});

test("a copy beside the original sends nothing to the original's webhook endpoints", async (t) => {
  const receiver = await startReceiver(t);
  const deps = { clock: systemClock, actor: SERVICE, webhookSettings: LOOPBACK };
  const created: { readonly id: string; readonly accountId: string }[] = [];
  const { original, copy } = await fork(t, {}, { name: "ledger" }, async (db) => {
    for (const path of ["", "/gone"]) {
      const { id: accountId } = await createTestOrganization(db);
      const { endpoint } = await createWebhookEndpoint(
        { db, ...deps },
        { accountId, mode: "live" },
        { url: `${receiver.url}${path}`, types: null, description: "" },
      );
      await recordEvent(db, { accountId, mode: "live" }, systemClock.now(), refunded("before"));
      created.push(endpoint);
    }
    const id = created[1]?.id ?? "";
    await updateEndpoints(db, { id }, { disabledAt: systemClock.now(), disabledReason: "gone" });
  });
  const [endpoint = { id: "", accountId: "" }, gone = endpoint] = created;
  const deliver = ({ db }: typeof copy) => createDeliveriesTo(deliveryContext(db), endpoint.id)();
  const events = z.array(z.object({ details: z.record(z.string(), z.unknown()) }));

  const run = await copy.impact("usage", "resume", "--as-copy", "--as", "maria");

  t.is(run.exitCode, 0, run.stderr);
  t.regex(run.stdout, /1 webhook endpoint was disabled/u);
  const audited = await copy.impact("audit", "list", "--action", "usage.resume", "--json");
  t.like(events.parse(readJson(audited))[0]?.details, { copy: { disabled_endpoints: 1 } });
  t.like(await findEndpoint(copy.db, endpoint.id), { disabledReason: "requested" });
  t.like(await findEndpoint(copy.db, gone.id), { disabledReason: "gone" });
  const owner = { accountId: endpoint.accountId, mode: "live" } as const;
  await recordEvent(copy.db, owner, systemClock.now(), refunded("after"));
  await deliver(copy);
  t.is(receiver.received.length, 0);
  await deliver(original);
  t.is(receiver.received.length, 1);
});

test("a database is a copy only if it looks like one, or is held, and is not in use", async (t) => {
  const { name, original, copy } = await fork(t);

  const refused = await original.impact("usage", "resume", "--as-copy");
  t.is(refused.exitCode, 2);
  t.regex(refused.stderr, /does not look like a copy.*impact usage hold/u);
  await recordPass(copy.db, "dispatcher");
  const used = await copy.impact("usage", "resume", "--as-copy");
  t.is(used.exitCode, 2);
  t.regex(used.stderr, /a worker uses this database/u);
  t.is(await getDeploymentName({ db: original.db, clock: systemClock }), name);

  await original.impact("usage", "hold", "--reason", "copied disk");
  const known = await original.impact("usage", "resume", "--as-copy", "--json");
  t.is(known.exitCode, 0, known.stderr);
  t.like(readJson(known), { copy: { original_name: name, disabled_endpoints: 0 } });
  t.not(await getDeploymentName({ db: original.db, clock: systemClock }), name);
});

test("a process that knows its name goes on when its database is promoted or copied", async (t) => {
  const { name, original } = await fork(t);
  const getName = await createDeploymentName({ db: original.db, clock: systemClock });
  await original.db.query(sql.typeAlias("void")`UPDATE deployment SET server = 'elsewhere'`);

  t.is(await getName(), name);
  await t.throwsAsync(getDeploymentName({ db: original.db, clock: systemClock }), {
    message: /usage resume/u,
  });
});

test("doctor names a copied database that is undecided, and a worker that uses another database", async (t) => {
  const { namespace, client } = await openNamespace(t);
  const { name, original, copy } = await fork(
    t,
    { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE: namespace },
    { name: "ledger" },
  );

  t.is((await diagnose(original.impact)).of("deployment"), `ok: ${name} is its name in Temporal`);
  const undecided = await diagnose(copy.impact);
  t.regex(undecided.of("deployment"), /^wrong: .*usage resume.*--as-copy/u);
  t.regex(undecided.of("worker (background)"), /^skipped/u);

  // The mistake: usage of the copy is resumed as if it replaced the original.
  await copy.impact("usage", "resume");
  await startProgram(t, "worker/main.ts", {
    DATABASE_URL: copy.url,
    TEMPORAL_NAMESPACE: namespace,
    LOG_LEVEL: "silent",
  });
  await eventually(() => isPolled(client, backgroundQueue(name)));
  t.regex(
    (await diagnose(original.impact)).of("worker (background)"),
    /^wrong: the worker \d+@\S+ polls this deployment's task queues but uses another database\. If you have just stopped it, wait half a minute\. Otherwise .* `impact usage resume --as-copy`/u,
  );
});

test("a stored bundle is used while the code is the same, and replaced if it is of other code", async (t) => {
  const folder = await makeTestFolder(t);
  const file = join(folder, "workflows.js");

  const { code } = await bundleWorkflows(file);
  t.true(code.includes("perpetualWork"));
  t.is(await readFile(file, "utf8"), code);

  const { mtimeMs } = await stat(file);
  t.is((await bundleWorkflows(file)).code, code);
  t.is((await stat(file)).mtimeMs, mtimeMs);

  await writeFile(file, `/* of other code */${code}`);
  t.is((await bundleWorkflows(file)).code, code);
  t.is(await readFile(file, "utf8"), code);
});

test("a bundle that cannot be stored is used all the same, and leaves no file", async (t) => {
  const folder = await makeTestFolder(t);
  const file = join(folder, "workflows.js");
  await mkdir(file);

  t.true((await bundleWorkflows(file)).code.includes("perpetualWork"));

  t.deepEqual(await readdir(folder), ["workflows.js"]);
});

test("a worker that is stopped while its workflows are being bundled does not wait for them", async (t) => {
  process.env["TEMPORAL_ADDRESS"] = TEMPORAL_ADDRESS;
  const shutdown = new AbortController();
  const run = createRunWorker(
    { logger: pino({ level: "silent" }), workflowBundle: new Promise(() => undefined) },
    shutdown.signal,
  );
  const worker = run({
    activities: {},
    identity: "test",
    taskQueue: "unused",
    maxConcurrentWorkflowTaskExecutions: 2,
  });

  shutdown.abort();

  await t.notThrowsAsync(worker);
});
