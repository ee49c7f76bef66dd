import type { Failure, MeterEventState } from "../meterEvents.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";

/** The first state of a meter event. */
export type SealedState = { readonly state: MeterEventState; readonly failure: Failure | null };

/**
 * Decides the first state of a meter event. The built-in ledger is this table, so it has what is sealed for it. Units that
 * add up to zero need not be sent.
 * @param part.waitsFor the event of the usage that it takes back, if the processor does not have that
 * @param part.isUsageClosed whether that usage is never billed, so that there is nothing to take back
 */
export const stateAtSealing = ({
  quantity,
  processor,
  waitsFor,
  isUsageClosed,
}: {
  readonly quantity: bigint;
  readonly processor: ProcessorName;
  readonly waitsFor: bigint | null;
  readonly isUsageClosed: boolean;
}): SealedState => {
  if (isUsageClosed) {
    return { state: "closed", failure: null };
  }
  if (waitsFor !== null) {
    return { state: "failed", failure: "waits_for_usage" };
  }
  return {
    state: quantity === 0n || processor === "ledger" ? "delivered" : "pending",
    failure: null,
  };
};
