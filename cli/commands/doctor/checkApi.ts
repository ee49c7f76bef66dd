import type { Context } from "../../context.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const ANSWER_WITHIN_MS = 5000;

const checkReady = (name: string, url: string): Promise<Finding> =>
  check(name, async () => {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
    const body = await answer.text();
    return answer.ok ? ok(`ready at ${url}`) : wrong(`${url}/readyz: ${answer.status} ${body}`);
  });

/** The two APIs, where a running `npm start` tells their addresses. */
export const checkApi = async ({ connections }: Context): Promise<readonly Finding[]> => {
  const started = await connections.running();
  if (!started) {
    return [
      {
        check: "APIs",
        ...skipped("their addresses are known only of a running `npm start`"),
      },
    ];
  }
  return [
    await checkReady("standalone API", started.apiUrl),
    await checkReady("store API", started.storeUrl),
  ];
};
