import { once } from "node:events";
import Koa from "koa";
import { z } from "zod";
import { openPool } from "../db/pools/pool.ts";
import { sql } from "../db/sql.ts";
import { systemClock } from "../runtime/clock.ts";
import { getDashboardSlug } from "../modules/dashboard/getDashboardSlug.ts";
import { createPlantingOrders } from "../modules/planting/createPlantingOrders.ts";
import type { RegistrationSizes } from "./measureRegistrations.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { createPlantedPlanting, plantOrders } from "./support/plantOrders.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";

const REGISTRATIONS = 1000;
const SPAN_SECONDS = 30 * 24 * 3600;
const WARM_UP_MS = 1500;
const NEVER_ABORTED = new AbortController().signal;

/** Serves texts from memory with the API's framework and nothing else. */
const serveTexts = async (texts: ReadonlyMap<string, { type: string; body: Buffer }>) => {
  const app = new Koa();
  app.use((ctx) => {
    const text = texts.get(ctx.path);
    if (text) {
      ctx.type = text.type;
      ctx.body = text.body;
    }
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

/** Compares answers that the service has cached with the same bytes, served from memory by a bare Koa app. */
export const measureCached = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("cached");
  const accountId = crypto.randomUUID();
  const [key = ""] = await createAccounts(databaseUrl, [accountId]);
  await fillRegistrations(databaseUrl, {
    accountId,
    count: REGISTRATIONS,
    spanSeconds: SPAN_SECONDS,
    reported: true,
  });
  const db = await openPool(databaseUrl);
  const context = { db, clock: systemClock, planting: createPlantedPlanting() };
  await plantOrders(context, await createPlantingOrders(context, NEVER_ABORTED));
  const slug = await getDashboardSlug(context, accountId);
  const settings = { DATABASE_URL: databaseUrl };
  const api = await services.startProgram("api/main.ts", settings);
  const headers = { Authorization: key };
  const id = await db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${accountId} LIMIT 1
  `);
  const answers = [
    { what: "dashboard page", path: `/dashboard/${slug}`, keys: [""] },
    { what: "dashboard as JSON", path: `/dashboard/${slug}.json`, keys: [""] },
    { what: "evidence of one tree", path: `/evidence/tree/${id}`, keys: [key] },
  ];
  const texts = new Map<string, { type: string; body: Buffer }>();
  for (const { path, keys } of answers) {
    const response = await fetch(`${api.url}${path}`, {
      headers: keys[0] === "" ? {} : headers,
    });
    texts.set(path, {
      type: response.headers.get("content-type") ?? "",
      body: Buffer.from(await response.arrayBuffer()),
    });
  }
  const memory = await serveTexts(texts);
  const results: Result[] = [];
  for (const { what, path, keys } of answers) {
    const bytes = texts.get(path)?.body.length ?? 0;
    const load = { method: "GET", keys, connections, warmUpMs: WARM_UP_MS } as const;
    const measured = await repeatUndisturbed(
      rounds,
      async () => ({
        memory: await runLoad({ ...load, durationMs: roundMs, url: `${memory.url}${path}` }),
        cached: await runLoad({ ...load, durationMs: roundMs, url: `${api.url}${path}` }),
      }),
      ({ memory: bare, cached }) =>
        report(
          `${what} (${bytes} bytes): ${cached.requestsPerSecond.toFixed(0)}/s, ` +
            `bare Koa ${bare.requestsPerSecond.toFixed(0)}/s`,
        ),
    );
    results.push(
      compareRounds(
        `${what} (${bytes} bytes), cached: requests/s compared with bare Koa`,
        measured,
        {
          value: ({ cached }) => cached.requestsPerSecond,
          baseline: ({ memory: bare }) => bare.requestsPerSecond,
          goal: { atLeast: 0.8 },
        },
      ),
    );
  }
  memory.close();
  await api.stop();
  await db.end();
  await services.dropDatabase("cached");
  return results;
};
