import type { ExecutionContext } from "ava";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import {
  listResumableStreams,
  listWaitingStreams,
} from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { SHARD_NUMBERS, shardOf } from "../../../db/shards.rules.ts";
import type { SendResult } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { createShardSender } from "../../../modules/billing/sending/createShardSender.ts";
import { createStreamScans } from "../../../modules/billing/sending/createStreamQueue.ts";
import type { UsageSender } from "../../../modules/billing/sending/createShardSender.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import type { ScanPace } from "../../../db/createScanPace.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import type { BillingContext } from "../../../modules/billing/context.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";

/** An organization with a customer of its own at Stripe. */
export type BilledOrganization = {
  readonly stream: Owner;
  readonly customerId: string;
  readonly subscriptionId: string;
  readonly register: (count: number) => Promise<string>;
  readonly refund: (id: string) => Promise<void>;
  /** Returns Stripe's units over all seconds. */
  readonly billed: () => number;
};

export type ShardSetup = BillingSetup & {
  readonly organizations: readonly BilledOrganization[];
  /** Creates the sender of a shard. What it reports is in `results` and `failures`. */
  readonly sender: (
    shard: number,
    options?: { deps?: BillingContext; maximumRunning?: number; callsPerSecond?: number },
  ) => UsageSender;
  readonly results: readonly { readonly key: string; readonly result: SendResult }[];
  readonly failures: readonly { readonly key: string; readonly error: unknown }[];
  /** Looks for usage once in every shard, and waits until everything that was begun is recorded. */
  readonly reportOnce: () => Promise<void>;
  /** Reports until nothing waits, as workers would, and lets time pass if events have to wait. */
  readonly reportAll: () => Promise<void>;
};

/** Creates a pace at which a scan is always due. */
export const createRestlessPace = (): ScanPace => ({ isDue: () => true, scan: (work) => work() });

/** Runs a shard's sender until it has nothing to do. */
export const runSender = async (sender: UsageSender): Promise<void> => {
  await sender.scan();
  do {
    await sender.step();
    await sender.waitForWork(20);
  } while (!sender.isIdle());
  await sender.settled();
};

/** Creates organizations of the same shard. The tests of a file are serial: a sender serves all that waits. */
export const setUpShards = async (
  t: ExecutionContext<DatabaseContext>,
  count: number,
): Promise<ShardSetup> => {
  const setup = await setUpBilling(t);
  const { deps, double, pass } = setup;
  const { db, clock } = deps;
  const writer = createRegistrationWriter({ db, clock });
  const results: { key: string; result: SendResult }[] = [];
  const failures: { key: string; error: unknown }[] = [];

  const organizations: BilledOrganization[] = [];
  while (organizations.length < count) {
    const { customerId, subscriptionId } = double.control.addSubscriber({});
    const { id: accountId } = await createTestOrganization(db, {
      clock,
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    if (shardOf(accountId) === shardOf(organizations[0]?.stream.accountId ?? accountId)) {
      organizations.push({
        stream: { accountId, mode: "live", kind: "tree" },
        customerId,
        subscriptionId,
        register: async (units) =>
          (await writer.register(registrationOf(accountId, { count: units }))).registration.id,
        refund: async (id) => {
          await refundRegistration(
            deps,
            { accountId, mode: "live", kind: "tree" },
            { id, count: null, reason: null, idempotencyKey: null },
          );
        },
        billed: () =>
          double.control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0),
      });
    }
  }

  // Of one worker that has all shards. Scans are always due, also if they take long on a busy machine.
  const scans = createStreamScans(deps, createRestlessPace);
  const sender: ShardSetup["sender"] = (shard, { deps: dependencies = deps, ...options } = {}) =>
    createShardSender(dependencies, shard, {
      ...options,
      scans,
      signal: new AbortController().signal,
      onResult: (stream, result) => results.push({ key: ownerKey(stream), result }),
      onFailure: (stream, error) => failures.push({ key: ownerKey(stream), error }),
    });

  const reportOnce = async (): Promise<void> => {
    await Promise.all(SHARD_NUMBERS.map((shard) => runSender(sender(shard))));
  };

  return {
    ...setup,
    organizations,
    sender,
    results,
    failures,
    reportOnce,
    reportAll: async () => {
      pass(5);
      for (let round = 0; round < 100; round += 1) {
        await reportOnce();
        if ((await listWaitingStreams(db)).length === 0) {
          return;
        }
        pass(30);
      }
      throw new Error("The usage was not reported after 100 rounds.");
    },
  };
};

/** Returns whether the event of a stream waits for the sender of its shard. */
export const isResumable = async (
  { deps: { db, clock } }: ShardSetup,
  { accountId }: Owner,
): Promise<boolean> => {
  const streams = await listResumableStreams(db, { after: null, now: clock.now(), limit: 100 });
  return streams.some((stream) => stream.accountId === accountId);
};

/** Seals what is ready of every organization, and returns the events. */
export const sealAll = async ({ deps, organizations }: ShardSetup) =>
  (
    await sealMeterEvents(
      deps,
      organizations.map(({ stream }) => ({ ...stream, firstSecond: 0 })),
    )
  ).flatMap((sealing) => (sealing.kind === "event" ? [sealing.event] : []));
