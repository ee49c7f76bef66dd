import { Agent, request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import type { FloodOptions } from "./support/runFlood.ts";
import { runFlood } from "./support/runFlood.ts";
import type { Services } from "./support/startServices.ts";
import { percentile } from "./support/statistics.ts";

type Latencies = { readonly p50Ms: number; readonly maximumMs: number; readonly failures: number };

type Observation = { readonly post: Latencies; readonly probe: Latencies };

/** Pause between two requests of the neighbor, which is no load itself. */
const PAUSE_MS = 10;

const sendOnce = (
  agent: Agent,
  url: string,
  post: { readonly key: string } | null,
): Promise<number> =>
  new Promise((resolve, reject) => {
    request(
      url,
      {
        agent,
        method: post ? "POST" : "GET",
        headers: post ? { Authorization: post.key, "Content-Type": "application/json" } : {},
      },
      (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      },
    )
      .on("error", reject)
      .end(post ? '{"count":1}' : undefined);
  });

const measureLatencies = async (
  send: () => Promise<number>,
  ended: AbortSignal,
): Promise<Latencies> => {
  const latenciesMs: number[] = [];
  let failures = 0;
  while (!ended.aborted) {
    const startedAtMs = performance.now();
    failures += (await send().catch(() => 0)) === 200 ? 0 : 1;
    latenciesMs.push(performance.now() - startedAtMs);
    await delay(PAUSE_MS);
  }
  const ascending = latenciesMs.toSorted((left, right) => left - right);
  return { p50Ms: percentile(ascending, 0.5), maximumMs: ascending.at(-1) ?? 0, failures };
};

const describe = ({ p50Ms, maximumMs, failures }: Latencies): string =>
  `${p50Ms.toFixed(1)} (${maximumMs.toFixed(0)}${failures > 0 ? `, ${failures} failed` : ""})`;

/** Returns the floods and their names. The registration has many units. */
const floodsOf = (
  registrationId: string,
): readonly (readonly [
  string,
  Pick<FloodOptions, "path" | "body" | "connections" | "pipelined">,
])[] => [
  [
    "300 refunds of one registration at a time",
    {
      path: "/refund/trees",
      body: `{"id":"${registrationId}","count":1}`,
      connections: 300,
      pipelined: 1,
    },
  ],
  [
    "300 refunds of unknown ids at a time",
    { path: "/refund/trees", body: '{"id":"{uuid}"}', connections: 300, pipelined: 1 },
  ],
  [
    "3,000 registrations at a time",
    { path: "/plant/trees", body: '{"count":1}', connections: 3000, pipelined: 1 },
  ],
  [
    "3 connections with 20,000 pipelined registrations each",
    { path: "/plant/trees", body: '{"count":1}', connections: 3, pipelined: 20_000 },
  ],
];

/**
 * Measures the POSTs of one account, and the probes of a balancer, while another account floods the same process. The
 * baseline is the same without the flood, just before it.
 */
export const measureNeighbor = async (
  services: Services,
  { roundMs }: { readonly roundMs: number },
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("neighbor");
  const [flooder = "", neighbor = ""] = await createAccounts(databaseUrl, [
    crypto.randomUUID(),
    crypto.randomUUID(),
  ]);
  // Nothing listens there: readiness has to be known without waiting for Temporal.
  const api = await services.startProgram("api/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: "127.0.0.1:1",
  });
  const agent = new Agent({ keepAlive: true });
  const observe = async (flood: Promise<unknown>): Promise<Observation> => {
    const ended = new AbortController();
    const latencies = Promise.all([
      measureLatencies(
        () => sendOnce(agent, `${api.url}/plant/trees`, { key: neighbor }),
        ended.signal,
      ),
      measureLatencies(() => sendOnce(agent, `${api.url}/readyz`, null), ended.signal),
    ]);
    await flood;
    ended.abort();
    const [post, probe] = await latencies;
    return { post, probe };
  };
  const planted = await fetch(`${api.url}/plant/trees`, {
    method: "POST",
    headers: { Authorization: flooder, "Content-Type": "application/json" },
    body: '{"count":1000000}',
  });
  const id = /"id":"(?<id>[^"]+)"/u.exec(await planted.text())?.groups?.["id"] ?? "";
  const results: Result[] = [];
  await observe(delay(roundMs));
  for (const [name, flood] of floodsOf(id)) {
    const alone = await observe(delay(roundMs));
    const flooding = runFlood({ ...flood, url: api.url, key: flooder, durationMs: roundMs });
    const during = await observe(flooding);
    const { statuses } = await flooding;
    report(
      `${name}: POST ${describe(during.post)} ms, alone ${describe(alone.post)}; ` +
        `readyz ${describe(during.probe)}, alone ${describe(alone.probe)}; flood ${JSON.stringify(statuses)}`,
    );
    for (const [what, value] of [
      ["POST", (observation: Observation) => observation.post],
      ["/readyz", (observation: Observation) => observation.probe],
    ] as const) {
      results.push({
        what: `${what} of a neighbor of ${name}: p50 (maximum) ms`,
        measured: describe(value(during)),
        baseline: describe(value(alone)),
        ratio: (value(during).p50Ms / value(alone).p50Ms).toFixed(1),
        goal: "",
        isReached: null,
      });
    }
  }
  agent.destroy();
  await api.stop();
  await services.dropDatabase("neighbor");
  return results;
};
