import type { ChildProcess } from "node:child_process";
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
export const awaitReady = (child: ChildProcess, name: string): Promise<Urls> =>
  new Promise((resolve, reject) => {
    const timeout = setTimeout(() => {
      reject(
        new StartupError(`The ${name} was not ready after ${READY_TIMEOUT_MS / 1000} seconds.`),
      );
    }, READY_TIMEOUT_MS);
    child.on("message", (message) => {
      const { data } = readyMessage.safeParse(message);
      if (data !== undefined) {
        clearTimeout(timeout);
        resolve(data.urls);
      }
    });
    child.once("exit", (code, signal) => {
      clearTimeout(timeout);
      reject(
        new StartupError(
          `The ${name} ended during startup (${signal ?? `exit code ${code}`}); see its output above.`,
        ),
      );
    });
  });
