import { Difference, MissingSetting } from "./client.ts";
import type { Answer, Service } from "./client.ts";

export type Check = {
  /** An endpoint or a subject. */
  readonly section: string;
  /** A fact. */
  readonly name: string;
  /** Whether this project decided it, because the contract leaves it open. */
  readonly isDecision: boolean;
  /** Rejects if the fact does not hold. It creates all that it needs, and other data of the account may exist. */
  readonly run: (service: Service) => Promise<void>;
};

export type Scene = { readonly service: Service };

type Declare<Helpers> = (name: string, run: (scene: Scene & Helpers) => Promise<void>) => Check;

/**
 * Returns functions that declare checks of one section.
 * @param helpersOf returns what the checks are given besides the service
 */
export const checksOf = <Helpers extends object>(
  section: string,
  helpersOf: (service: Service) => Helpers,
) => {
  const declare =
    (isDecision: boolean): Declare<Helpers> =>
    (name, run) => ({
      section,
      name,
      isDecision,
      run: (service) => run({ service, ...helpersOf(service) }),
    });
  return { contract: declare(false), decision: declare(true) };
};

export type Endpoint = readonly [method: string, path: string, body?: unknown];

/** Returns a value that no other check and no other run uses. */
export const unique = (prefix: string): string => `${prefix}-${crypto.randomUUID()}`;

/** Runs requests at the same time, and waits for all of them even if one fails. */
export const atOnce = async <Result>(
  count: number,
  request: (index: number) => Promise<Result>,
): Promise<Result[]> => {
  const requests = Array.from({ length: count }, (_, index) => request(index));
  await Promise.allSettled(requests);
  return Promise.all(requests);
};

/** Returns the day in UTC of a timestamp, or of one some days later. */
export const dayOf = (timestamp: string, laterDays = 0): string =>
  new Date(Date.parse(timestamp) + laterDays * 86_400_000).toISOString().slice(0, 10);

export const countStatuses = (answers: readonly Answer[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const { status } of answers) {
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
};

export type Outcome =
  | { readonly result: "ok" }
  | { readonly result: "differs"; readonly reason: string }
  | { readonly result: "skipped"; readonly reason: string };

/** Runs one check. Errors that say nothing about the server are thrown. */
export const runCheck = async (service: Service, { run }: Check): Promise<Outcome> => {
  try {
    await run(service);
    return { result: "ok" };
  } catch (error) {
    if (error instanceof MissingSetting) {
      return { result: "skipped", reason: error.message };
    }
    if (error instanceof Difference) {
      return { result: "differs", reason: error.message };
    }
    throw error;
  }
};
