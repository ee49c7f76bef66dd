import type { RegistrationSizes } from "./measureRegistrations.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import { startEverything } from "./support/startEverything.ts";
import type { Services } from "./support/startServices.ts";

const WARM_UP_MS = 4000;
const MANY_ACCOUNTS = 1000;

type Round = { readonly bare: LoadReport; readonly whole: LoadReport };

const describeLoad = ({ requestsPerSecond, p50Ms, p99Ms }: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)} ms`;

/**
 * Compares POST /plant/trees of the whole `npm start`, with its worker, Temporal and PostgreSQL, with a bare Koa app that
 * parses the same requests.
 */
export const measureStart = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const { run, stop } = await startEverything(services.folder, {});
  const bareServer = await services.startProgram("bench/bareServer.ts", {});
  const keys = await createAccounts(
    run.databaseOwnerUrl,
    Array.from({ length: MANY_ACCOUNTS }, () => crypto.randomUUID()),
  );
  const results: Result[] = [];
  for (const accounts of [1, MANY_ACCOUNTS]) {
    const load = {
      keys: keys.slice(0, accounts),
      connections,
      warmUpMs: WARM_UP_MS,
      durationMs: roundMs,
    };
    const measured = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => ({
        bare: await runLoad({ ...load, url: `${bareServer.url}/plant/trees` }),
        whole: await runLoad({ ...load, url: `${run.apiUrl}/plant/trees` }),
      }),
      ({ bare, whole }, others) =>
        report(
          `POST over ${accounts}: npm start ${describeLoad(whole)}; bare Koa ${describeLoad(bare)}; ` +
            `other processes ${others === null ? "?" : (others * 100).toFixed(0)} % of CPU`,
        ),
    );
    results.push(
      compareRounds(
        `POST to npm start, ${accounts === 1 ? "one account" : `${accounts} accounts`}: requests/s compared with bare Koa`,
        measured,
        {
          value: ({ whole }) => whole.requestsPerSecond,
          baseline: ({ bare }) => bare.requestsPerSecond,
          goal: accounts === 1 ? { atLeast: 0.7 } : null,
        },
      ),
    );
  }
  await bareServer.stop();
  await stop();
  return results;
};
