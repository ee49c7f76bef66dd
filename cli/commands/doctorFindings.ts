import type { DatabasePool } from "slonik";
import type { Cli } from "../command.ts";

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

export type DatabaseContext = Cli & { readonly db: DatabasePool };

export type Checks<Context> = Readonly<
  Record<string, (context: Context) => Promise<Result> | Result>
>;
