import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import { pgbenchAccountId } from "./support/runPgbench.ts";
import type { RegistrationSizes } from "./measureRegistrations.ts";
import type { Services } from "./support/startServices.ts";

const SIZES = [100, 1000] as const;

/** Two clients keep the database busy while the process reads and answers. */
const CLIENTS = 2;

const WARM_UP_MS = 2000;

/** Rates of registrations a second: by single requests, and by batches of each size. */
type Round = { readonly single: number; readonly batched: readonly number[] };

const composeBatch = (runId: string, start: number, size: number): string =>
  JSON.stringify({
    items: Array.from({ length: size }, (_, index) => ({
      count: 1,
      attribution: "bench",
      metadata: { order: String(start + index).padStart(10, "0") },
      idempotency_key: `${runId}-${start + index}`,
    })),
  });

/** Sends batches until the time is over, and returns the items that were recorded in a second. */
const runBatches = async (
  url: string,
  key: string,
  size: number,
  durationMs: number,
): Promise<number> => {
  const runId = crypto.randomUUID();
  const startedAtMs = performance.now();
  let sent = 0;
  let recorded = 0;
  const sendUntilEnd = async (): Promise<void> => {
    while (performance.now() - startedAtMs < durationMs) {
      const body = composeBatch(runId, sent, size);
      sent += size;
      const response = await fetch(url, {
        method: "POST",
        headers: { authorization: key, "content-type": "application/json" },
        body,
      });
      const text = await response.text();
      if (response.status !== 200) {
        throw new Error(`A batch failed with ${response.status}: ${text.slice(0, 500)}`);
      }
      recorded += size;
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, sendUntilEnd));
  return (recorded * 1000) / (performance.now() - startedAtMs);
};

/** Compares registrations in batches with single requests, alternately, of one account. */
export const measureBatches = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("batches");
  const [key = ""] = await createAccounts(databaseUrl, [pgbenchAccountId(1)]);
  const api = await services.startProgram("api/main.ts", {
    DATABASE_URL: databaseUrl,
  });
  const path = `${api.url}/plant/trees`;
  for (const size of SIZES) {
    await runBatches(`${path}/batch`, key, size, WARM_UP_MS);
  }
  const measured = await repeatUndisturbed(
    rounds,
    async (): Promise<Round> => {
      const { requestsPerSecond: single } = await runLoad({
        url: path,
        keys: [key],
        connections,
        warmUpMs: WARM_UP_MS,
        durationMs: roundMs,
      });
      const batched: number[] = [];
      for (const size of SIZES) {
        batched.push(await runBatches(`${path}/batch`, key, size, roundMs));
      }
      return { single, batched };
    },
    ({ single, batched }, others) =>
      report(
        `single ${single.toFixed(0)}/s, in batches of ${SIZES.join(" and ")}: ` +
          `${batched.map((rate) => rate.toFixed(0)).join(" and ")}/s; ` +
          `other processes ${others === null ? "?" : (others * 100).toFixed(0)} % of CPU`,
      ),
  );
  await api.stop();
  await services.dropDatabase("batches");
  return SIZES.map((size, place) =>
    compareRounds(
      `registrations/s in batches of ${size}, compared with single requests`,
      measured,
      { value: ({ batched }) => batched[place] ?? 0, baseline: ({ single }) => single },
    ),
  );
};
