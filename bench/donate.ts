import type { Benchmark } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { send } from "./support/send.ts";
import { timeCalls } from "./support/statistics.ts";

/** Enough that none exceeds its twenty donations a second. */
const DONORS = 40;

/** A charity of the built-in catalogue. */
const EIN = "53-0196605";

/** Compares donations to a charity of the built-in catalogue, one at a time, with registrations by the same client. */
export const donate: Benchmark = async ({ services, sizes, log }) => {
  const databaseUrl = await services.createDatabase("donate");
  const keys = await createAccounts(databaseUrl, accountIds(DONORS));
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  for (const key of keys) {
    await send(`${api.url}/charities/subscribe`, key, {});
  }
  const time = (path: string, body: unknown): Promise<number> =>
    timeCalls(sizes.calls, (index) => send(`${api.url}${path}`, keys[index % DONORS] ?? "", body));
  const rounds = await repeatUndisturbed(
    sizes.rounds,
    async () => ({
      registrationMs: await time("/plant/trees", { count: 1 }),
      donationMs: await time("/charities/donate", { amount_cents: 100, ein: EIN }),
    }),
    ({ registrationMs, donationMs }) =>
      `a donation ${donationMs.toFixed(1)} ms, a registration ${registrationMs.toFixed(1)} ms`,
    log,
  );
  await api.stop();
  await services.dropDatabase("donate");
  return [
    compareRounds("one donation at a time: p50 in ms, and of registrations", rounds, {
      value: ({ donationMs }) => donationMs,
      baseline: ({ registrationMs }) => registrationMs,
      digits: 1,
      goal: { below: 40 },
    }),
  ];
};
