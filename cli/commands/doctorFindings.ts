import type { DatabasePool } from "slonik";
import { withTimeout } from "../../runtime/waiting.ts";
import type { CliContext } from "../context.ts";
import { describeError } from "../exitCodes.ts";

/**
 * The result of one check. `skipped`: the part is not configured or cannot be checked from here. `warning`: it works and
 * needs an operator soon, so the exit code does not change.
 */
export type Finding = {
  readonly check: string;
  readonly status: "ok" | "warning" | "wrong" | "skipped";
  readonly detail: string;
};

export type Result = Omit<Finding, "check">;

export const ok = (detail: string): Result => ({ status: "ok", detail });
export const wrong = (detail: string): Result => ({ status: "wrong", detail });
export const warning = (detail: string): Result => ({ status: "warning", detail });
export const skipped = (detail: string): Result => ({ status: "skipped", detail });

/** What to do if no worker has done something yet. A worker polls Temporal only some seconds after it is ready. */
export const START_WORKER =
  "start one with `npm run worker` or `npm start`, or wait for half a minute if one has just started";

/** Longer than the timeout of every single call. */
const TIMEOUT_MS = 15_000;

/** Runs one check with a timeout; an error that it throws is its finding. */
export const check = async (
  name: string,
  run: () => Promise<Result> | Result,
): Promise<Finding> => {
  try {
    return {
      check: name,
      ...(await withTimeout(AbortSignal.timeout(TIMEOUT_MS), Promise.resolve(run()))),
    };
  } catch (error) {
    return { check: name, ...wrong(describeError(error)) };
  }
};

/** What a check needs of the database. */
export type DatabaseContext = CliContext & { readonly db: DatabasePool };

/** Checks by their names. */
export type Checks<Context> = Readonly<
  Record<string, (context: Context) => Promise<Result> | Result>
>;

/**
 * Runs checks one after the other, because the clock is not measured beside other queries.
 * @param context what the checks need, or why none of them can run
 */
export const runChecks = async <Context extends object>(
  context: Context | string,
  checks: Checks<Context>,
): Promise<readonly Finding[]> => {
  const findings: Finding[] = [];
  for (const [name, run] of Object.entries(checks)) {
    findings.push(
      typeof context === "string"
        ? { check: name, ...skipped(context) }
        : await check(name, () => run(context)),
    );
  }
  return findings;
};
