import type { ExecutionContext } from "ava";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import type { SendResult } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { createSender } from "../../../db/createRuns.ts";
import type { Sender } from "../../../db/createRuns.ts";
import {
  createStreamScan,
  createUsageWork,
} from "../../../modules/billing/sending/createUsageSender.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import type { BillingContext } from "../../../modules/billing/context.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { runSender } from "../../support/runSender.ts";
import { createBilledOrganization, setUpBilling } from "../billingSetup.ts";

/** A clock by which scans take no time, so that the next one is always due, also on a busy machine. */
export const stoppedClock = (): number => 0;

/** Creates organizations. The tests of a file are serial: a sender serves all that waits. */
export const setUpSending = async (t: ExecutionContext<DatabaseContext>, count: number) => {
  const setup = await setUpBilling(t);
  const { deps, pass, double } = setup;
  const results: { key: string; result: SendResult }[] = [];
  const failures: { key: string; error: unknown }[] = [];

  const first = await createBilledOrganization(deps, double.control);
  const organizations = [first];
  while (organizations.length < count) {
    organizations.push(await createBilledOrganization(deps, double.control));
  }

  const scan = createStreamScan(deps, stoppedClock);
  /** Creates a sender. What it reports is in `results` and `failures`. */
  const sender = ({
    deps: dependencies = deps,
    ...options
  }: {
    deps?: BillingContext;
    maximumRunning?: number;
    callsPerSecond?: number;
  } = {}): Sender =>
    createSender(
      createUsageWork(dependencies, {
        ...options,
        scan,
        onResult: (stream, result) => results.push({ key: ownerKey(stream), result }),
        onFailure: (stream, error) => failures.push({ key: ownerKey(stream), error }),
      }),
      new AbortController().signal,
    );

  /** Looks for usage once, and waits until everything that was begun is recorded. */
  const reportOnce = (): Promise<void> => runSender(sender());

  return {
    ...setup,
    first,
    organizations,
    /** Returns Stripe's units of each organization over all seconds. */
    billedUnits: () => organizations.map(({ units }) => units()),
    /** Registers units of each organization, which can be sent then. */
    registerAll: async (): Promise<void> => {
      await Promise.all(organizations.map(({ register }) => register(2)));
      pass(5);
    },
    sender,
    results,
    failures,
    reportOnce,
    /** Reports until nothing waits, as workers would, and lets time pass if events have to wait. */
    reportAll: async (): Promise<void> => {
      pass(5);
      for (let round = 0; round < 100; round += 1) {
        await reportOnce();
        if ((await listWaitingStreams(deps.db)).length === 0) {
          return;
        }
        pass(30);
      }
      throw new Error("The usage was not reported after 100 rounds.");
    },
  };
};

export type SendingSetup = Awaited<ReturnType<typeof setUpSending>>;

/** Begins the attempts that are ready of every organization, as a process that is killed then. Returns the events. */
export const sealAll = async (
  { deps, organizations }: Pick<SendingSetup, "deps" | "organizations">,
  aheadMs = 0,
) =>
  (
    await sealMeterEvents(
      deps,
      organizations.map(({ stream }) => ({ ...stream, firstSecond: 0 })),
      new Date(deps.clock.now().getTime() + aheadMs),
    )
  ).flatMap((sealing) => (sealing.kind === "event" ? [sealing.event] : []));
