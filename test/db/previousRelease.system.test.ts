import test from "ava";
import type { ExecutionContext } from "ava";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { sumLedgerUnits } from "../support/sumLedgerUnits.ts";
import { createEmptyDatabase, openTestPool } from "../support/database.ts";
import { eventually, openNamespace, startProgram, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { openReleases, runImpactOf } from "./releases.ts";
import type { Release } from "./releases.ts";

/* Upgrades from this release to an invented later one whose migration only expands the schema. */

const created = z.object({ id: z.uuid(), api_key_prod: z.string() });
const planted = z.object({ tree_details: z.array(z.object({ id: z.uuid() })).min(1) });
type Running = {
  readonly plant: (count: number) => Promise<string>;
  readonly refund: (id: string, count: number) => Promise<void>;
  readonly countListed: () => Promise<number>;
  readonly kill: () => Promise<void>;
};

/** Starts the API and a worker of a release. */
const start = async (
  t: ExecutionContext,
  { folder, workflowBundle }: Release,
  given: Readonly<Record<string, string>>,
  key: string,
): Promise<Running> => {
  const settings = { ...given, WORKFLOW_BUNDLE: workflowBundle };
  const root = pathToFileURL(`${folder}/`);
  const api = await startProgram(t, "api/main.ts", settings, root);
  const worker = await startProgram(t, "worker/main.ts", settings, root);
  const call = async (method: string, path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${api.urls["standalone"]}${path}`, {
      method,
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    t.is(response.status, 200, text);
    return JSON.parse(text);
  };
  return {
    plant: async (count) =>
      planted.parse(await call("POST", "/plant/trees", { count })).tree_details[0]?.id ?? "",
    refund: async (id, count) => {
      await call("POST", "/refund/trees", { id, count });
    },
    countListed: async () => planted.parse(await call("GET", "/plant/trees")).tree_details.length,
    kill: async () => {
      await Promise.all([api.kill(), worker.kill()]);
    },
  };
};

test("a release's programs run on the next one's schema, beside its programs and after a rollback", async (t) => {
  const { previous, next } = await openReleases(t);
  const databaseUrl = await createEmptyDatabase(t);
  const { namespace } = await openNamespace(t);
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: namespace,
  };
  await runImpactOf(previous, ["migrate"], settings);
  const { id: accountId, api_key_prod: key } = created.parse(
    JSON.parse(await runImpactOf(previous, ["org", "create", "--name", "Old", "--json"], settings)),
  );
  const db = await openTestPool(t, databaseUrl, 2);
  const isBilled = (units: number) =>
    eventually(
      async () => (await sumLedgerUnits(db, { accountId, mode: "live", kind: "tree" })) === units,
    );
  const before = await start(t, previous, settings, key);
  const first = await before.plant(30);
  await isBilled(30);

  await runImpactOf(next, ["migrate"], settings);
  // During the upgrade: both releases.
  const after = await start(t, next, settings, key);
  await before.plant(4);
  await before.refund(first, 1);
  await after.plant(5);
  await after.refund(first, 1);
  await isBilled(30 + 4 + 5 - 2);
  await Promise.all([before.kill(), after.kill()]);

  // A rollback: the previous release alone, started again.
  const rolledBack = await start(t, previous, settings, key);
  const second = await rolledBack.plant(6);
  await rolledBack.refund(first, 1);
  t.is(await rolledBack.countListed(), 4);
  await isBilled(30 + 4 + 5 + 6 - 3);
  await t.notThrowsAsync(runImpactOf(previous, ["migrate"], settings));
  await t.notThrowsAsync(runImpactOf(previous, ["doctor"], settings));
  await rolledBack.kill();

  const upgraded = await start(t, next, settings, key);
  await upgraded.refund(second, 6);
  await isBilled(30 + 4 + 5 - 3);
  await t.notThrowsAsync(runImpactOf(next, ["doctor"], settings));
});
