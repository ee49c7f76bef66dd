import { setTimeout as sleep } from "node:timers/promises";
import { openPool } from "../db/pools/pool.ts";
import { systemClock } from "../runtime/clock.ts";
import { createRegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../test/stripeDouble/startStripeDouble.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { median } from "./support/statistics.ts";
import { accountIds, requireUnits, waitUntilDrained } from "./support/waitUntilDrained.ts";

const FACTS_SPAN_SECONDS = 60;
/** Typical duration of a call to Stripe from another continent. */
const STRIPE_LATENCY_MS = 100;
const FAILING_SHARE = 0.15;
/** The goal allows the two seconds before a second is sealed, and some retries. */
const UP_TO_DATE_WITHIN_SECONDS = 10;

const measureBusyAccount = async (
  services: Services,
  facts: number,
  report: (line: string) => void,
): Promise<Result> => {
  const databaseUrl = await services.createDatabase("busy_account");
  const accounts = accountIds(1);
  await createAccounts(databaseUrl, accounts);
  await fillRegistrations(databaseUrl, {
    accountId: accounts[0] ?? "",
    count: facts,
    spanSeconds: FACTS_SPAN_SECONDS,
    reported: false,
  });
  const startedAt = Date.now();
  const worker = await services.startProgram("worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
  });
  const drained = await waitUntilDrained(databaseUrl, accounts);
  await worker.stop();
  await services.dropDatabase("busy_account");
  requireUnits(drained, facts);
  const seconds = (drained.lastSettledAt.getTime() - startedAt) / 1000;
  report(
    `sender, one account: ${drained.events} events, ${seconds.toFixed(1)} s including startup`,
  );
  return {
    what: `sender: ${facts} facts of one account in ${FACTS_SPAN_SECONDS} s`,
    measured: `${drained.events} events, ${seconds.toFixed(1)} s after the worker's start`,
    baseline: `${facts} facts`,
    ratio: `1 : ${(facts / drained.events).toFixed(0)}`,
    goal: `at most ${FACTS_SPAN_SECONDS + 1} events`,
    isReached: drained.events <= FACTS_SPAN_SECONDS + 1,
  };
};

/** Registers one unit per account and second, through the API's registration writer. */
const runTraffic = async (
  databaseUrl: string,
  accounts: readonly string[],
  seconds: number,
): Promise<Date> => {
  const db = await openPool(databaseUrl);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  try {
    // Early in a second, so that a slow write does not end in the next one.
    const startMs = Math.ceil(Date.now() / 1000) * 1000 + 200;
    for (let second = 0; second < seconds; second += 1) {
      await sleep(Math.max(0, startMs + second * 1000 - Date.now()));
      await Promise.all(
        accounts.map((accountId) =>
          writer.register({
            accountId,
            mode: "live",
            kind: "tree",
            count: 1,
            fractionalCount: 0,
            idempotencyKey: null,
            attribution: "bench",
            metadata: {},
            isLimited: false,
          }),
        ),
      );
    }
    return new Date();
  } finally {
    await db.end();
  }
};

/** Measures whether a stream with one event a second keeps up while some of Stripe's responses are a 500. */
export const measureRetries = async (
  services: Services,
  trafficSeconds: number,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("failing_calls");
  const accounts = accountIds(1);
  const double = await startStripeDouble({ latencyMs: STRIPE_LATENCY_MS });
  await createAccounts(databaseUrl, accounts, [double.control.addSubscriber({}).customerId]);
  const worker = await services.startProgram("worker/main.ts", {
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: await services.startTemporal(),
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  });
  double.control.addFault({
    kind: "server_error",
    probability: FAILING_SHARE,
    times: Number.MAX_SAFE_INTEGER,
  });
  const endedAt = await runTraffic(databaseUrl, accounts, trafficSeconds);
  const drained = await waitUntilDrained(databaseUrl, accounts);
  await worker.stop();
  await double.close();
  await services.dropDatabase("failing_calls");
  requireUnits(drained, trafficSeconds);
  const afterSeconds = (drained.lastSettledAt.getTime() - endedAt.getTime()) / 1000;
  const lags = `last event ${afterSeconds.toFixed(1)} s after the end; median ${median(drained.lagsSeconds).toFixed(1)} s, at most ${Math.max(...drained.lagsSeconds).toFixed(1)} s`;
  report(`sender, ${FAILING_SHARE * 100} % of calls fail: ${lags}`);
  return [
    {
      what: `sender: one account, 1 fact/s, ${trafficSeconds} s, ${FAILING_SHARE * 100} % of Stripe's responses a 500`,
      measured: lags,
      baseline: `${trafficSeconds} facts`,
      ratio: `${drained.attempts} calls`,
      goal: `last event at most ${UP_TO_DATE_WITHIN_SECONDS} s after the end`,
      isReached: afterSeconds <= UP_TO_DATE_WITHIN_SECONDS,
    },
  ];
};

/** Measures into how few events the usage of a busy account is summed, with a real worker and Temporal server. */
export const measureSender = async (
  services: Services,
  facts: number,
  report: (line: string) => void,
): Promise<readonly Result[]> => [await measureBusyAccount(services, facts, report)];
