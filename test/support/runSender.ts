import type { Sender } from "../../db/createRuns.ts";

/** Scans once, and runs a sender until it has nothing to do. */
export const runSender = async (sender: Sender): Promise<void> => {
  await sender.scan();
  await sender.settled();
  sender.check();
};
