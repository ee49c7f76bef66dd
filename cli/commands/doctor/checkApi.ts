import type { CliContext } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const TIMEOUT_MS = 5000;

const checkReady = (name: string, url: string): Promise<Finding> =>
  check(name, async () => {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = await response.text();
    return response.ok
      ? ok(`ready at ${url}`)
      : wrong(`${url}/readyz returned ${response.status} ${body}`);
  });

/** Checks the two APIs of a running `npm start`. */
export const checkApi = async ({ connections }: CliContext): Promise<readonly Finding[]> => {
  const started = await connections.running();
  if (!started) {
    return [
      {
        check: "APIs",
        ...skipped(
          "only the APIs of an `npm start` with this database are checked; use /readyz of others",
        ),
      },
    ];
  }
  return [
    await checkReady("standalone API", started.apiUrl),
    await checkReady("store API", started.storeUrl),
  ];
};
