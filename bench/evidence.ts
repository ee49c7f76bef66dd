import { openPool } from "../db/pools/pool.ts";
import { createPlanting } from "../modules/planting/createPlanting.ts";
import { createPlantingOrders } from "../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../modules/planting/orders.sql.ts";
import { placePlantingOrder, pollPlantingOrder } from "../modules/planting/pollPlantingOrder.ts";
import { systemClock } from "../runtime/clock.ts";
import type { Benchmark } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { query } from "./support/query.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { composeRequest, describeLoad, runLoad } from "./support/runLoad.ts";
import { send } from "./support/send.ts";
import { timeCalls } from "./support/statistics.ts";

const REGISTRATIONS = 20_000;
const NEVER_ABORTED = new AbortController().signal;

/** Orders all trees, from a simulated partner that has planted them as soon as it is polled. */
const plantAll = async (databaseUrl: string): Promise<void> => {
  const planting = createPlanting({
    PLANTING_PARTNER: "simulated",
    PLANTING_TIMELINE: "allocations",
    SIMULATED_PLANTING_SECONDS: 0,
    TREEMAPPER_API_BASE: "",
  });
  const db = await openPool(databaseUrl);
  try {
    const context = { db, clock: systemClock, planting };
    await createPlantingOrders(context, NEVER_ABORTED);
    for (const { id } of await listPlantingOrders(db, { limit: 1 })) {
      await placePlantingOrder(context, id, NEVER_ABORTED);
      await pollPlantingOrder(context, id, NEVER_ABORTED);
    }
  } finally {
    await db.end();
  }
};

/** Compares the evidence of different trees and of one tree with the same text from a bare Koa app. */
export const evidence: Benchmark = async ({ services, sizes, log }) => {
  const databaseUrl = await services.createDatabase("evidence");
  const [accountId = ""] = accountIds(1);
  const [key = ""] = await createAccounts(databaseUrl, [accountId]);
  await fillRegistrations(databaseUrl, accountId, REGISTRATIONS);
  await plantAll(databaseUrl);
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const bare = await services.startProgram("bench/programs/bareServer.ts", {});
  await query(databaseUrl, "VACUUM (ANALYZE)");
  const trees = await query<{ id: string }>(databaseUrl, "SELECT id FROM registration");
  // Each is read for the first time only once.
  const urls = trees.map(({ id }) => `${api.url}/evidence/tree/${id}`);
  const sameUrl = urls.pop() ?? "";
  const text = await send(sameUrl, key);
  await fetch(bare.url, { method: "PUT", body: text });
  const load = (program: typeof api, url: string) =>
    runLoad(program, {
      url: program.url,
      requests: [composeRequest(url, { Authorization: key })],
      connections: sizes.connections,
      durationMs: sizes.roundMs,
    });
  const rounds = await repeatUndisturbed(
    sizes.rounds,
    async () => ({
      firstMs: await timeCalls(sizes.calls, () => send(urls.pop() ?? "", key)),
      bareMs: await timeCalls(sizes.calls, () => send(bare.url, key)),
      memory: await load(bare, bare.url),
      same: await load(api, sameUrl),
    }),
    ({ firstMs, bareMs, memory, same }) =>
      `evidence of ${text.length} bytes: first ${firstMs.toFixed(1)} ms, ` +
      `bare Koa ${bareMs.toFixed(1)} ms; ${describeLoad(same)}; bare Koa ${describeLoad(memory)}`,
    log,
  );
  await bare.stop();
  await api.stop();
  await services.dropDatabase("evidence");
  return [
    compareRounds("evidence of one tree: requests/s, and of a bare Koa app", rounds, {
      value: ({ same }) => same.requestsPerSecond,
      baseline: ({ memory }) => memory.requestsPerSecond,
      goal: { atLeast: 0.8 },
    }),
    compareRounds("evidence of different trees: p50 in ms, and of a bare Koa app", rounds, {
      value: ({ firstMs }) => firstMs,
      baseline: ({ bareMs }) => bareMs,
      digits: 1,
    }),
  ];
};
