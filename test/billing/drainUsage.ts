import { createOutcomeRecords } from "../../modules/billing/sending/createAttempts.ts";
import type { Delay, SendResult } from "../../modules/billing/sending/decideNextStep.rules.ts";
import { sealMeterEvents } from "../../modules/billing/sending/sealMeterEvents.ts";
import type { Sealing } from "../../modules/billing/sending/sealMeterEvents.ts";
import { beginSending, finishSending } from "../../modules/billing/sending/sendMeterEvent.ts";
import { findMeterEvent } from "../../modules/billing/meterEvents.sql.ts";
import { lockStreams } from "../../modules/billing/streams.sql.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import type { Owner } from "../../modules/records/owner.rules.ts";

/*
 * The steps of a sender for one stream, one after the other, so that a test can look at what is between them.
 */

/** Seals the oldest usage of a stream without an attempt. Waits while another transaction has locked the stream. */
export const sealMeterEvent = async (context: BillingContext, stream: Owner): Promise<Sealing> => {
  await context.db.transaction((transaction) => lockStreams(transaction, [stream]));
  const [sealing = { kind: "none" }] = await sealMeterEvents(context, [
    { ...stream, firstSecond: 0 },
  ]);
  return sealing;
};

/** Makes one attempt to send a sealed event. */
export const sendMeterEvent = async (
  context: BillingContext,
  id: bigint,
  signal: AbortSignal,
): Promise<SendResult> => {
  const {
    started,
    events: [event],
  } = await beginSending(context, [id]);
  const record = createOutcomeRecords(context);
  return event ? finishSending({ ...context, record }, event, { started, signal }) : LEASED;
};

const LEASED: Delay = {
  kind: "delayed",
  cause: "early",
  reason: "another attempt may be in progress",
  afterMs: 15_000,
  outcomeUnknown: false,
  newKey: false,
};

/** `done`: nothing more is ready. `more`: the limit of events is reached. `delayed`: the current event must wait. */
export type DrainResult = Delay | { readonly kind: "done" | "more" };

const MAXIMUM_EVENTS = 200;

const attempt = (
  context: BillingContext,
  sealing: Exclude<Sealing, { readonly kind: "none" | "more" }>,
  signal: AbortSignal,
): Promise<SendResult> | SendResult => {
  switch (sealing.kind) {
    case "event":
      return sendMeterEvent(context, sealing.event.id, signal);
    case "waits":
      return sealing.delay;
    case "held":
      return { ...LEASED, reason: sealing.reason };
  }
};

/**
 * Seals and sends a stream's usage, until nothing is ready or an event must wait. It does not wait for retries to be due. An
 * event about which the processor is asked does not keep the others waiting.
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
    const sealing = await sealMeterEvent(context, stream);
    if (sealing.kind === "none") {
      return asked ?? { kind: "done" };
    }
    if (sealing.kind === "more") {
      continue;
    }
    const result = await attempt(context, sealing, signal);
    onResult(result, sealing.kind === "event" ? sealing.event.id : null);
    if (result.kind === "delayed") {
      const event =
        sealing.kind === "event" ? await findMeterEvent(context.db, sealing.event.id) : null;
      if (!event || event.askingSince === null) {
        return result;
      }
      asked = result;
    }
  }
  return { kind: "more" };
};
