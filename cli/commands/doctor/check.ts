import { withTimeout } from "../../../domain/withTimeout.ts";
import { describeError } from "../../exitCodes.ts";

/** What was found of one thing. `skipped`: it is not set up, or cannot be judged from here. */
export type Finding = {
  readonly check: string;
  readonly status: "ok" | "wrong" | "skipped";
  readonly detail: string;
};

export type Verdict = Omit<Finding, "check">;

export const ok = (detail: string): Verdict => ({ status: "ok", detail });
export const wrong = (detail: string): Verdict => ({ status: "wrong", detail });
export const skipped = (detail: string): Verdict => ({ status: "skipped", detail });

/** Longer than any of the calls takes to give up by itself. */
const PATIENCE_MS = 15_000;

/** Looks at one thing, within bounds; whatever is thrown meanwhile is what is wrong with it. */
export const check = async (name: string, look: () => Promise<Verdict>): Promise<Finding> => {
  try {
    return { check: name, ...(await withTimeout(AbortSignal.timeout(PATIENCE_MS), look())) };
  } catch (error) {
    return { check: name, ...wrong(describeError(error)) };
  }
};
