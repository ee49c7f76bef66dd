import { setTimeout as delay } from "node:timers/promises";
import type { Sender } from "../../db/createRuns.ts";

/** Scans once, and runs a sender until it has nothing to do. */
export const runSender = async (sender: Sender): Promise<void> => {
  await sender.scan();
  do {
    await sender.goOn();
    await delay(5);
  } while (!sender.isIdle());
  await sender.goOn();
};
