import type { Delay, SendResult } from "../../modules/billing/sending/decideNextStep.rules.ts";
import { sealMeterEvents } from "../../modules/billing/sending/sealMeterEvents.ts";
import type { Sealing } from "../../modules/billing/sending/sealMeterEvents.ts";
import {
  createOutcomeRecords,
  finishSending,
  startLease,
} from "../../modules/billing/sending/sendMeterEvent.ts";
import type { LeaseStart } from "../../modules/billing/sending/sendMeterEvent.ts";
import { lockStreams } from "../../modules/billing/streams.sql.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import type { Owner } from "../../modules/records/owner.rules.ts";

/*
 * The steps of a sender for one stream, one after the other, so that a test can look at what is between them.
 */

/** What an attempt has begun with, or why none has. */
type Begun = { readonly sealing: Sealing; readonly started: LeaseStart };

/** Begins the next attempt of a stream. Waits while another transaction has locked the stream. */
export const beginAttempt = async (context: BillingContext, stream: Owner): Promise<Begun> => {
  const started = startLease(context);
  await context.db.transaction((transaction) => lockStreams(transaction, [stream]));
  const streams = [{ ...stream, firstSecond: 0 }];
  const [sealing = { kind: "none" }] = await sealMeterEvents(context, streams, started.at);
  return { sealing, started };
};

/** Makes the attempt that has begun; null if none has. */
export const finishAttempt = async (
  context: BillingContext,
  { sealing, started }: Begun,
  signal: AbortSignal = new AbortController().signal,
): Promise<SendResult | null> => {
  switch (sealing.kind) {
    case "event": {
      const record = createOutcomeRecords(context);
      return finishSending({ ...context, record }, sealing.event, { started, signal });
    }
    case "waits":
      return sealing.delay;
    case "none":
    case "more":
      return null;
  }
};

/** `done`: nothing more is ready. `more`: the limit of events is reached. `delayed`: the current event must wait. */
export type DrainResult = Delay | { readonly kind: "done" | "more" };

const MAXIMUM_EVENTS = 200;

/**
 * Seals and sends a stream's usage, until nothing is ready or an event must wait. An event about which the processor is asked
 * does not keep the others waiting.
 */
export const drainUsage = async (
  context: BillingContext,
  stream: Owner,
  {
    signal = new AbortController().signal,
    onResult = () => undefined,
  }: {
    readonly signal?: AbortSignal;
    readonly onResult?: (result: SendResult, meterEventId: bigint | null) => void;
  } = {},
): Promise<DrainResult> => {
  let asked: Delay | null = null;
  for (let sent = 0; sent < MAXIMUM_EVENTS && !signal.aborted; sent += 1) {
    const begun = await beginAttempt(context, stream);
    const result = await finishAttempt(context, begun, signal);
    if (begun.sealing.kind === "none") {
      return asked ?? { kind: "done" };
    }
    const event = begun.sealing.kind === "event" ? begun.sealing.event : null;
    if (result !== null) {
      onResult(result, event && event.id);
    }
    if (result?.kind === "delayed") {
      if (result.cause !== "asking" && (event === null || event.askingSince === null)) {
        return result;
      }
      asked = result;
    }
  }
  return { kind: "more" };
};
