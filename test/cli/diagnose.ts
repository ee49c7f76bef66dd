import { z } from "zod";
import { readJson, runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

const findings = z.array(
  z.strictObject({ check: z.string(), status: z.string(), detail: z.string() }),
);

/** Runs doctor, with these settings or as a command that has its own, and returns what it finds. */
export const diagnose = async (
  given: Readonly<Record<string, string>> | ((...args: readonly string[]) => Promise<Run>),
) => {
  const args = ["doctor", "--json"];
  const run = await (typeof given === "function"
    ? given(...args)
    : runImpact(args, { env: given }));
  const list = findings.parse(readJson(run));
  const find = (name: string) => list.find(({ check }) => check === name);
  return {
    exitCode: run.exitCode,
    list,
    find,
    of: (name: string): string => {
      const finding = find(name);
      return finding ? `${finding.status}: ${finding.detail}` : "";
    },
  };
};
