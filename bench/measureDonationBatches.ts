import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import { pgbenchAccountId } from "./support/runPgbench.ts";
import type { Services } from "./support/startServices.ts";

/** Each key may send 20 single donations and one batch a second, so many keys are needed to keep the service busy. */
const ACCOUNTS = 64;
const BATCH_CLIENTS = 2;
const SIZE = 1000;
const EIN = "53-0196605";

const donation = (key: string) => ({ amount_cents: 5, ein: EIN, idempotency_key: key });

const post = async (url: string, key: string, body: unknown): Promise<number> => {
  const response = await fetch(url, {
    method: "POST",
    headers: { authorization: key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.text();
  return response.status;
};

/**
 * Sends requests until the time is over, and returns the donations that were recorded in a second.
 * @param size the donations of a request
 */
const run = async (
  clients: number,
  durationMs: number,
  size: number,
  send: (client: number, turn: number) => Promise<number>,
): Promise<number> => {
  const startedAtMs = performance.now();
  let recorded = 0;
  const sendUntilEnd = async (client: number): Promise<void> => {
    for (let turn = 0; performance.now() - startedAtMs < durationMs; turn += 1) {
      const status = await send(client, turn);
      // A key that has used up its second is slower, and no failure.
      if (status !== 200 && status !== 429) {
        throw new Error(`A donation failed with ${status}.`);
      }
      recorded += status === 200 ? size : 0;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, client) => sendUntilEnd(client)));
  return (recorded * 1000) / (performance.now() - startedAtMs);
};

/** Compares donations in batches with single requests, alternately, each of many accounts. */
export const measureDonationBatches = async (
  services: Services,
  { rounds, roundMs }: { readonly rounds: number; readonly roundMs: number },
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("donations");
  const ids = Array.from({ length: ACCOUNTS }, (_, index) => pgbenchAccountId(index + 1));
  const keys = await createAccounts(databaseUrl, ids);
  const api = await services.startProgram("api/main.ts", {
    DATABASE_URL: databaseUrl,
  });
  for (const key of keys) {
    await post(`${api.url}/charities/subscribe`, key, {});
  }
  const measured = await repeatUndisturbed(
    rounds,
    async () => {
      const runId = crypto.randomUUID();
      const single = await run(ACCOUNTS, roundMs, 1, (client, turn) =>
        post(
          `${api.url}/charities/donate`,
          keys[client] ?? "",
          donation(`${runId}-${client}-${turn}`),
        ),
      );
      const batched = await run(BATCH_CLIENTS, roundMs, SIZE, (client, turn) =>
        post(
          `${api.url}/charities/donate/batch`,
          keys[(turn * BATCH_CLIENTS + client) % ACCOUNTS] ?? "",
          {
            items: Array.from({ length: SIZE }, (_, index) =>
              donation(`${runId}-${client}-${turn}-${index}`),
            ),
          },
        ),
      );
      return { single, batched };
    },
    ({ single, batched }, others) =>
      report(
        `single ${single.toFixed(0)} donations/s, in batches of ${SIZE}: ${batched.toFixed(0)}/s; ` +
          `other processes ${others === null ? "?" : (others * 100).toFixed(0)} % of CPU`,
      ),
  );
  await api.stop();
  await services.dropDatabase("donations");
  return [
    compareRounds(
      `donations/s in batches of ${SIZE}, compared with single requests of ${ACCOUNTS} accounts`,
      measured,
      { value: ({ batched }) => batched, baseline: ({ single }) => single },
    ),
  ];
};
