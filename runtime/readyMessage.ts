import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { StartupError } from "./errors.rules.ts";

/** What a program sends to its parent over IPC. The URLs are those that it serves, by name. */
const readyMessage = z.object({
  type: z.literal("ready"),
  urls: z.record(z.string(), z.string()),
});

type Urls = Readonly<z.output<typeof readyMessage>["urls"]>;

/** It usually takes seconds; a busy machine may need much longer. */
const READY_TIMEOUT_MS = 120_000;

/** Reports to the parent that this program is ready. @returns false if no program has started this one */
export const reportReady = (urls: Urls): boolean =>
  process.send?.({ type: "ready", urls } satisfies z.input<typeof readyMessage>) !== undefined;

/**
 * Waits until a program that was forked reports that it is ready.
 * @returns the URLs that it serves, by name
 * @throws StartupError if it exits or does not become ready in time
 */
export const awaitReady = async (child: ChildProcess, name: string): Promise<Urls> => {
  const ended = once(child, "exit").then(([code, signal]) => {
    const how = signal ?? `exit code ${code}`;
    throw new StartupError(`The ${name} ended during startup (${how}); see its output above.`);
  });
  const late = sleep(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new StartupError(`The ${name} was not ready after ${READY_TIMEOUT_MS / 1000} seconds.`);
  });
  const [message] = await Promise.race([once(child, "message"), ended, late]);
  return readyMessage.parse(message).urls;
};
